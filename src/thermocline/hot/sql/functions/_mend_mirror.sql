-- Makes the mirror of a chunk, or of a RollUp, what the chunk is: rows that it lacks go in, rows that it should not have go out, and
-- the history hears nothing of it, for the chunk is copied next. Returns how many rows that were. The transaction is REPEATABLE READ, so that chunk and mirror are seen
-- at one moment; whoever writes meanwhile keeps the mirror himself. A row that is deleted meanwhile and not in the mirror yet leaves a doubt,
-- by which the chunk is compared once more.
CREATE OR REPLACE FUNCTION thermocline._mend_mirror(p_chunk oid) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET row_security = off
AS $$
DECLARE
    v_of     record;
    v_within text;
    v_filled boolean;
    v_rows   bigint;
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RAISE EXCEPTION 'cannot compare % with its mirror in a READ COMMITTED transaction', p_chunk::regclass
            USING HINT = 'Begin the transaction with ISOLATION LEVEL REPEATABLE READ.';
    END IF;
    SELECT s.chronotable_id AS id, s.table_oid, s.shadow_oid, r.time_column, tstzrange(p.range_start, p.range_end) AS times,
           m.columns = thermocline._columns_told(s.table_oid) AS fits
    INTO STRICT v_of
    FROM thermocline.resident_part p
    JOIN thermocline.synced_table s ON s.chronotable_id = p.id
    JOIN thermocline.mirror m ON m.chronotable_id = p.id
    JOIN thermocline.relation r ON r.id = p.id
    WHERE p.part_oid = p_chunk;
    IF NOT v_of.fits THEN
        RAISE EXCEPTION 'the columns of % have just been changed', p_chunk::regclass USING ERRCODE = 'lock_not_available';
    END IF;
    v_within := thermocline._mirror_within(v_of.id, v_of.times);
    DELETE FROM thermocline.mirror_doubt d WHERE d.chronotable_id = v_of.id AND d.times <@ v_of.times;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s)', v_of.shadow_oid::regclass, v_within) INTO v_filled;
    PERFORM thermocline._read_as(v_of.id, 'nothing');
    IF v_filled THEN
        EXECUTE thermocline._mirror_statement('mend', v_of.table_oid, v_of.time_column, v_of.shadow_oid, p_chunk, v_within) INTO v_rows;
    ELSE
        EXECUTE thermocline._mirror_statement('fill', v_of.table_oid, v_of.time_column, v_of.shadow_oid, p_chunk);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
    END IF;
    PERFORM thermocline._read_as(v_of.id, 'change');
    IF v_rows > 0 THEN
        INSERT INTO thermocline.mended_chunk (chunk_oid, chronotable_id) VALUES (p_chunk, v_of.id)
        ON CONFLICT (chunk_oid) DO UPDATE SET chronotable_id = excluded.chronotable_id;
    END IF;
    RETURN v_rows;
END
$$;

COMMENT ON FUNCTION thermocline._mend_mirror(oid) IS 'Makes the mirror of a chunk what the chunk is; returns how many rows were wrong.';

REVOKE ALL ON FUNCTION thermocline._mend_mirror(oid) FROM PUBLIC;
