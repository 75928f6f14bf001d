-- Keeps the mirror of a table that is synced in shadow mode, once per statement. Runs with its owner's rights, since whoever writes need
-- not have any on the mirror. Which mirror it is follows from the table that fired it, as in lakets._resolve_partition_parent; a chunk that has
-- left its table has none.
-- Whoever writes must not suffer for sync. What cannot be mirrored, because the columns have just changed or a row is not in the mirror yet,
-- leaves a doubt: the feed compares that part and copies it again. The lock, shared among writers, keeps the statements as they are
-- while one runs; only the feed takes it alone, for a moment, to follow the columns. A transaction that looks through an old snapshot may
-- see old columns in the catalog, so the rows themselves are asked for their names; or no mirror yet, so the argument says whose it is.
CREATE OR REPLACE FUNCTION thermocline._mirrored() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    c_fresh  constant boolean := current_setting('transaction_isolation') = 'read committed';
    c_rows   constant text := CASE TG_OP WHEN 'DELETE' THEN 'old_rows' ELSE 'new_rows' END;
    v_table  constant oid := coalesce(pg_partition_root(TG_RELID), TG_RELID);
    v_mirror record;
    v_fits   boolean;
    v_any    boolean := true;
    v_owed   bigint := 0;
    v_times  tstzrange := '(,)';
    v_first  timestamptz;
    v_last   timestamptz;
BEGIN
    IF TG_OP = 'INSERT' THEN
        v_any := EXISTS (SELECT FROM new_rows);
    ELSIF TG_OP <> 'TRUNCATE' THEN
        v_any := EXISTS (SELECT FROM old_rows);
    END IF;
    IF NOT v_any THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext('thermocline mirror'), v_table::int);
    SELECT m.*, m.columns = thermocline._columns_told(v_table) AS fits INTO v_mirror
    FROM thermocline.synced_table s
    JOIN thermocline.mirror m ON m.chronotable_id = s.chronotable_id
    JOIN pg_class c ON c.oid = s.shadow_oid
    WHERE s.table_oid = v_table;
    IF NOT FOUND THEN
        IF NOT c_fresh THEN
            INSERT INTO thermocline.mirror_doubt (chronotable_id, times) VALUES (TG_ARGV[0]::int, v_times);
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM thermocline._empty_mirror(v_mirror.chronotable_id, TG_RELID);
        RETURN NULL;
    END IF;
    v_fits := v_mirror.fits;
    IF v_fits AND NOT c_fresh THEN
        EXECUTE format(
            'SELECT array_agg(k ORDER BY k COLLATE "C") FROM (SELECT jsonb_object_keys(to_jsonb(r)) AS k FROM (SELECT * FROM %s LIMIT 1) r) x',
            c_rows) INTO v_mirror.columns;
        v_fits := v_mirror.columns = v_mirror.names;
    END IF;
    IF NOT v_fits THEN
        v_owed := 1;
        IF c_fresh THEN
            SELECT r.time_column INTO STRICT v_mirror.put FROM thermocline.relation r WHERE r.id = v_mirror.chronotable_id;
            EXECUTE format('SELECT min(t)::timestamptz, max(t)::timestamptz FROM (SELECT %1$I AS t FROM %2$s%3$s) x', v_mirror.put,
                           c_rows, CASE TG_OP WHEN 'UPDATE' THEN format(' UNION ALL SELECT %I FROM old_rows', v_mirror.put) ELSE '' END)
            INTO v_first, v_last;
            v_times := tstzrange(v_first, v_last, '[]');
        END IF;
    ELSIF TG_OP = 'INSERT' THEN
        EXECUTE v_mirror.put;
    ELSE
        IF TG_OP = 'UPDATE' THEN
            PERFORM thermocline._read_as(v_mirror.chronotable_id, 'update');
        END IF;
        EXECUTE v_mirror.take INTO v_owed, v_first, v_last;
        v_times := tstzrange(v_first, v_last, '[]');
        IF TG_OP = 'UPDATE' THEN
            EXECUTE v_mirror.put;
            PERFORM thermocline._read_as(v_mirror.chronotable_id, 'change');
        END IF;
    END IF;
    IF v_owed > 0 THEN
        INSERT INTO thermocline.mirror_doubt (chronotable_id, times) VALUES (v_mirror.chronotable_id, v_times);
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._mirrored() IS 'Trigger of every table and chunk that is synced in shadow mode: keeps the mirror.';

REVOKE ALL ON FUNCTION thermocline._mirrored() FROM PUBLIC;
