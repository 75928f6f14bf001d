-- Puts the triggers on a ChronoTable that leave marks for RollUps. One set per table, from its making on, however many RollUps
-- it has. They are of rows, so chunks have them too, whoever attaches them, and COPY keeps its speed. WHEN is evaluated in
-- C: a fresh row costs a comparison, and a late one in the hour that was marked last costs another. By the clock and not by now(), so
-- that no transaction can carry a row past it; in UTC whatever the session's zone is. Where late_after was shorter before, RollUps may
-- be whole up to a time that is fresh now: rows from before it are late, too.
CREATE OR REPLACE FUNCTION lakets._track_late_writes(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_aware boolean;
    v_whole timestamptz;
    v_until text;
    v_late  text;
    v_new   text;
    v_old   text;
    v_one   record;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    SELECT atttypid = 'timestamptz'::regtype INTO STRICT v_aware
    FROM pg_attribute WHERE attrelid = v_table.table_oid AND attname = v_table.time_column;
    SELECT max(g.complete_until) INTO v_whole FROM lakets._rollup_registry g WHERE g.source_chronotable_id = p_chronotable_id;
    -- In seconds: days would be those of the writer's zone.
    v_until := format('clock_timestamp() + interval %L', make_interval(secs => -extract(epoch FROM v_table.late_after)::float8));
    IF v_whole > clock_timestamp() - v_table.late_after THEN
        v_until := format('greatest(%s, timestamptz %L)', v_until, v_whole);
    END IF;
    v_late := format(
        '(%%1$s.%1$s < %2$s AND date_bin(''1 hour'', %%1$s.%1$s%3$s, ''2000-01-01 00:00+00'')'
        ' <> to_timestamp(coalesce(nullif(current_setting(%4$L, true), ''''), ''-infinity'')::float8)'
        ' AND lakets._to_be_marked(%5$s, %%1$s.%1$s%3$s))',
        replace(quote_ident(v_table.time_column), '%', '%%'),
        CASE WHEN v_aware THEN v_until ELSE format('(%s) AT TIME ZONE ''UTC''', v_until) END,
        CASE WHEN v_aware THEN '' ELSE '::timestamp AT TIME ZONE ''UTC''' END, 'thermocline.hour_' || p_chronotable_id,
        p_chronotable_id);
    v_new := format(v_late, 'NEW');
    v_old := format(v_late, 'OLD');
    FOR v_one IN
        SELECT * FROM (VALUES
            ('trg_lakets_rollup_bulk_invalidation', 'INSERT', v_new),
            ('trg_lakets_rollup_invalidation', 'UPDATE', format('%s OR %s', v_old, v_new)),
            ('trg_lakets_rollup_invalidation_delete', 'DELETE', v_old)
        ) t (name, event, condition)
    LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION lakets._late_written()',
                       v_one.name, v_one.event, v_table.table_oid::regclass, v_one.condition);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', v_table.table_oid::regclass, v_one.name);
    END LOOP;
END
$$;

COMMENT ON FUNCTION lakets._track_late_writes(int) IS
    'Puts the triggers on a ChronoTable by which writes to the past mark the buckets of its RollUps.';
