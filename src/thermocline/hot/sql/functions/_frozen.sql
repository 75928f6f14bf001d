-- The times of a RollUp's source that have left PostgreSQL: no bucket that touches them is recomputed from what is left. Over
-- another RollUp these are the buckets of which that one has only a part. In PL/pgSQL, so that it is planned once in a session.
CREATE OR REPLACE FUNCTION thermocline._frozen(p_rollup lakets._rollup_registry) RETURNS tstzmultirange
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT coalesce(range_agg(tstzrange(d.range_start, d.range_end)), '{}')
            FROM (SELECT d.range_start, d.range_end FROM thermocline.dropped_range d WHERE d.chronotable_id = p_rollup.source_chronotable_id
                  UNION ALL  -- a worker is about to detach it: its rows will not be seen, and may come back
                  SELECT m.range_start, m.range_end
                  FROM thermocline.detaching a JOIN lakets._chunk_metadata m ON m.chunk_oid = a.chunk_oid AND m.status <> 'dropped'
                  WHERE m.chronotable_id = p_rollup.source_chronotable_id
                  UNION ALL
                  SELECT h.range_start, h.range_end FROM thermocline._hidden_chunks(p_rollup.source_chronotable_id) h) d)
           + coalesce((SELECT s.incomplete FROM lakets._rollup_registry s WHERE s.id = p_rollup.source_rollup_id), '{}');
END
$$;

COMMENT ON FUNCTION thermocline._frozen(lakets._rollup_registry) IS 'The times of a RollUp''s source that have left PostgreSQL.';
