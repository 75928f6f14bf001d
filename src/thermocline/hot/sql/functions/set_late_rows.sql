-- What becomes of a row for a range that has left PostgreSQL. 'reject' refuses it, which is so unless something else is said. 'lake' lets
-- it in: it streams to the lake like any other, is found by every read, and leaves PostgreSQL once the lake provably has it. Ranges of
-- which the lake has not everything go on to refuse rows.
CREATE OR REPLACE FUNCTION lakets.set_late_rows(
    p_table_name  text,
    p_late        text,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_synced thermocline.synced_table;
    v_title  text;
    v_left   int;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry
    WHERE id = lakets._chronotable_id(p_table_name, p_schema_name) FOR UPDATE;
    PERFORM thermocline._require_owner(v_table.id);
    v_title := format('%s.%s', v_table.schema_name, v_table.table_name);
    IF p_late IS NULL OR p_late NOT IN ('reject', 'lake') THEN
        RAISE EXCEPTION 'late rows of % cannot go to %', v_title, coalesce(quote_literal(p_late), 'NULL')
            USING HINT = 'It is ''reject'' or ''lake''. Nothing was changed.';
    END IF;
    SELECT * INTO v_synced FROM thermocline.synced_table s WHERE s.chronotable_id = v_table.id AND s.status <> 'TERMINATED';
    IF p_late = 'lake' AND v_synced.chronotable_id IS NULL THEN
        RAISE EXCEPTION 'late rows of % cannot go to the lake: it is not synced', v_title
            USING HINT = format('SELECT lakets.enable_sync(%L, %L); first.', p_table_name, p_schema_name);
    END IF;
    IF p_late = 'lake' AND v_synced.mode <> 'direct' THEN
        RAISE EXCEPTION 'late rows of % cannot go to the lake: it is synced in % mode', v_title, v_synced.mode
            USING HINT = format('Only tables in direct mode take late rows: SELECT lakets.enable_sync(%L, %L, ''direct'') switches it.',
                                p_table_name, p_schema_name);
    END IF;
    UPDATE lakets._chronotable_registry SET late = p_late WHERE id = v_table.id;
    v_left := thermocline._fit_traps(v_table.id);
    IF v_left > 0 AND p_late = 'reject' THEN
        RAISE EXCEPTION 'cannot refuse late rows of % yet: a transaction that uses it is open', v_title
            USING ERRCODE = 'lock_not_available',
                  HINT = 'Nothing was changed. Try again when it has ended; pg_stat_activity shows long transactions.';
    END IF;
    IF p_late = 'lake' AND (v_left > 0 OR v_synced.status <> 'STREAMING') THEN
        RAISE NOTICE 'some ranges of % refuse late rows for now: %', v_title,
            CASE WHEN v_left > 0 THEN 'they are in use' ELSE 'it does not stream yet' END
            USING HINT = 'A node lets them in later by itself, and so does `thermocline late`.';
    END IF;
    IF p_late = 'lake' AND EXISTS (SELECT FROM thermocline.dropped_range d WHERE d.chronotable_id = v_table.id AND NOT d.in_lake) THEN
        RAISE NOTICE 'ranges of % that were dropped while nothing streamed go on to refuse late rows', v_title;
    END IF;
    IF p_late = 'reject' AND EXISTS (SELECT FROM thermocline.trap t WHERE t.chronotable_id = v_table.id AND t.size_bytes > 0) THEN
        RAISE NOTICE 'late rows of % that were let in stay until the lake has them', v_title
            USING HINT = '`thermocline late` lets them go.';
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.set_late_rows(text, text, text) IS
    'Sets what becomes of rows of a ChronoTable for ranges that have left PostgreSQL: reject refuses them, lake lets them in and on to the '
    'lake.';
