-- The query of a RollUp over a part of its source, as text: p_rows tells which rows, as a query of the source's columns in which
-- %s stands for the source.
CREATE OR REPLACE FUNCTION thermocline._rollup_query(p_rollup lakets._rollup_registry, p_rows text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT replace(p_rollup.template, '/*source*/',
                   format('(%s) AS %s', format(p_rows, p_rollup.source_oid::regclass), p_rollup.source_alias))
$$;

COMMENT ON FUNCTION thermocline._rollup_query(lakets._rollup_registry, text) IS 'The query of a RollUp over a part of its source.';
