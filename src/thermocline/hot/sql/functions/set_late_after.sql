-- Says how old a row of a ChronoTable is at least when its writing leaves a mark for RollUps. Younger rows are fresh: a RollUp's watermark
-- stays twice that behind the clock, so fresh rows are always above it. The triggers are made anew, which waits for those who write to the
-- table and keeps others from it for a moment. Nothing is lost: what RollUps have as whole by then is marked whatever its age is.
CREATE OR REPLACE FUNCTION lakets.set_late_after(
    p_table_name  text,
    p_late_after  interval,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id  int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_oid oid;
BEGIN
    PERFORM thermocline._require_read_committed(format('set late_after of %I.%I', p_schema_name, p_table_name));
    IF p_late_after IS NULL OR p_late_after <= interval '0' OR p_late_after > interval '1 year' THEN
        RAISE EXCEPTION 'cannot take rows of %.% for late after %', p_schema_name, p_table_name, coalesce(p_late_after::text, 'NULL')
            USING HINT = 'Give an interval of more than 0 and at most a year. Nothing was changed.';
    END IF;
    SELECT r.table_oid INTO STRICT v_oid FROM lakets._chronotable_registry r WHERE r.id = v_id;
    PERFORM thermocline._require_owner_of(v_oid);
    -- No RollUp is made or refreshed by what was true before.
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup in the making', 0));
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || g.id, 0))
    FROM (SELECT g.id FROM lakets._rollup_registry g WHERE g.source_chronotable_id = v_id ORDER BY g.id) g;
    UPDATE lakets._chronotable_registry SET late_after = p_late_after WHERE id = v_id;
    PERFORM lakets._track_late_writes(v_id);
END
$$;

COMMENT ON FUNCTION lakets.set_late_after(text, interval, text) IS
    'How old a row is at least when its writing leaves a mark for RollUps; five minutes unless it is set.';
