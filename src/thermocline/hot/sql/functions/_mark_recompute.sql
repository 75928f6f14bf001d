-- Marks what has changed outside of PostgreSQL from p_from up to p_to, without it: the buckets that have a part in it need to be recomputed
-- from both tiers. p_relation is a ChronoTable, and then every RollUp that is made from it is meant, or the table of one RollUp. Writers only
-- add rows, so nobody waits. Returns how many RollUps were marked.
CREATE OR REPLACE FUNCTION lakets._mark_recompute(
    p_relation oid,
    p_from     timestamptz,
    p_to       timestamptz,
    p_reason   text DEFAULT 'late_row'
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_marked int;
BEGIN
    IF NOT EXISTS (SELECT FROM lakets._chronotable_registry t WHERE t.table_oid = p_relation)
       AND NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.rollup_oid = p_relation) THEN
        RAISE EXCEPTION '% is neither a ChronoTable nor the table of a RollUp', coalesce(p_relation::regclass::text, 'NULL')
            USING HINT = 'SELECT rollup_table, source_table FROM lakets.show_rollups() lists them.';
    ELSIF NOT isfinite(p_from) OR NOT isfinite(p_to) OR (p_from < p_to) IS NOT TRUE THEN
        RAISE EXCEPTION 'cannot mark % from % to %', p_relation::regclass, coalesce(p_from::text, 'NULL'), coalesce(p_to::text, 'NULL')
            USING HINT = 'Give two moments, the earlier one first.';
    END IF;
    INSERT INTO lakets._rollup_recompute (rollup_id, first_time, last_time, reason)
    SELECT g.id, p_from, p_to - interval '1 microsecond', p_reason
    FROM lakets._rollup_registry g
    WHERE g.rollup_oid = p_relation AND g.source_chronotable_id IS NOT NULL
       OR g.source_chronotable_id = (SELECT t.id FROM lakets._chronotable_registry t WHERE t.table_oid = p_relation);
    GET DIAGNOSTICS v_marked = ROW_COUNT;
    RETURN v_marked;
END
$$;

COMMENT ON FUNCTION lakets._mark_recompute(oid, timestamptz, timestamptz, text) IS
    'Marks a range of a ChronoTable or of a RollUp to be recomputed from both tiers; returns how many RollUps that concerns.';
