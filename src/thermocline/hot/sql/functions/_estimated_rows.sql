-- How many rows a table has, without counting them: by the statistics that follow every write, or as of its last ANALYZE; NULL
-- when neither is known.
CREATE OR REPLACE FUNCTION thermocline._estimated_rows(p_table oid, p_reltuples real) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(pg_catalog.pg_stat_get_live_tuples(p_table), 0),
                CASE WHEN p_reltuples OPERATOR(pg_catalog.>=) 0 THEN p_reltuples::pg_catalog.int8 END);

COMMENT ON FUNCTION thermocline._estimated_rows(oid, real) IS 'An estimate of a table''s rows.';
