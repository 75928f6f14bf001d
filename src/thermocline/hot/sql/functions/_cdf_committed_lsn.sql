-- How far a synced relation has come in the lake. NULL unless it streams: whoever compares with it fails closed.
CREATE OR REPLACE FUNCTION lakets._cdf_committed_lsn(p_shadow_name text) RETURNS pg_lsn
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH named AS (
        SELECT r.id FROM lakets._chronotable_registry r
        WHERE p_shadow_name IN (r.table_name, r.schema_name || '.' || r.table_name, r.shadow_table_name)
        UNION ALL
        SELECT -g.id FROM lakets._rollup_registry g
        WHERE p_shadow_name IN (g.name, '_rollup_' || g.name, g.rollup_table, g.shadow_table_name)
    )
    SELECT s.committed_lsn
    FROM thermocline.synced_table s JOIN named n ON n.id = s.chronotable_id
    WHERE s.status = 'STREAMING' AND (SELECT count(*) FROM named) = 1
$$;

COMMENT ON FUNCTION lakets._cdf_committed_lsn(text) IS
    'Position of the log up to which the changes of a synced table are in the lake; NULL unless it is streaming.';
