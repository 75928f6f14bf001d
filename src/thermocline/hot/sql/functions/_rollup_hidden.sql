-- The buckets of a RollUp's table that its real-time view does not show, as times: those that it has only a part of, and those that
-- are computed anew as a whole. Readers of a real-time view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._rollup_hidden(p_rollup_id int) RETURNS tstzmultirange
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN coalesce((SELECT g.incomplete FROM lakets._rollup_registry g WHERE g.id = p_rollup_id), '{}')
         + coalesce((SELECT range_agg(tstzrange(p.bucket, p.bucket_end)) FROM lakets._rollup_pending_whole(p_rollup_id) p), '{}');
END
$$;

COMMENT ON FUNCTION lakets._rollup_hidden(int) IS
    'The buckets of which a RollUp has only a part, and those of which nothing stored is true any more.';
