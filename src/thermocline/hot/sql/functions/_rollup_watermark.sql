-- Up to where a RollUp is materialised for good, without it. Readers of a real-time view need no right on the registry.
CREATE OR REPLACE FUNCTION lakets._rollup_watermark(p_name text) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT watermark FROM lakets._rollup_registry WHERE name = p_name), '-infinity')
$$;

COMMENT ON FUNCTION lakets._rollup_watermark(text) IS
    'The end of what a RollUp has materialised for good; real-time queries read their source from there on.';
