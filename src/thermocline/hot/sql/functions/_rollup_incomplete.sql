-- The buckets that a RollUp has only a part of, as times. Readers of a real-time view need no right on the registry.
CREATE OR REPLACE FUNCTION lakets._rollup_incomplete(p_rollup_id int) RETURNS tstzmultirange
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT incomplete FROM lakets._rollup_registry WHERE id = p_rollup_id), '{}')
$$;

COMMENT ON FUNCTION lakets._rollup_incomplete(int) IS
    'The buckets of which a RollUp has only a part, which its real-time view does not show.';
