-- How far a synced relation has come in the lake. NULL unless it streams: whoever compares with it fails closed.
CREATE OR REPLACE FUNCTION lakets._cdf_committed_lsn(p_shadow_name text) RETURNS pg_lsn
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.committed_lsn
    FROM thermocline.synced_table s JOIN lakets._chronotable_registry r ON r.id = s.chronotable_id
    WHERE s.status = 'STREAMING'
      AND p_shadow_name IN (r.table_name, r.schema_name || '.' || r.table_name, r.shadow_table_name)
      AND (SELECT count(*) FROM lakets._chronotable_registry o
           WHERE p_shadow_name IN (o.table_name, o.schema_name || '.' || o.table_name, o.shadow_table_name)) = 1
$$;

COMMENT ON FUNCTION lakets._cdf_committed_lsn(text) IS
    'Position of the log up to which the changes of a synced table are in the lake; NULL unless it is streaming.';
