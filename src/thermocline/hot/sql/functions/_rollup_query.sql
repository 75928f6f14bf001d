-- The query of a RollUp over a part of its source, as text: p_rows tells which rows, as a query of the source's columns in which
-- %s stands for the source.
CREATE OR REPLACE FUNCTION thermocline._rollup_query(p_id int, p_rows text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT replace(g.template, '/*source*/', format('(%s) AS %s', format(p_rows, g.source_oid::regclass), g.source_alias))
    FROM lakets._rollup_registry g WHERE g.id = p_id
$$;

COMMENT ON FUNCTION thermocline._rollup_query(int, text) IS 'The query of a RollUp over a part of its source.';
