-- The buckets of a RollUp's table that its real-time view does not show, as times: those that it has only a part of, and those that
-- are computed anew as a whole. Readers of a real-time view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._rollup_hidden(p_rollup_id int) RETURNS tstzmultirange
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_hidden tstzmultirange := coalesce((SELECT incomplete FROM lakets._rollup_registry WHERE id = p_rollup_id), '{}');
BEGIN
    IF EXISTS (SELECT FROM thermocline._marks(p_rollup_id) m WHERE m.keys IS NULL) THEN
        v_hidden := v_hidden + coalesce((SELECT range_agg(tstzrange(p.bucket, p.bucket_end))
                                         FROM lakets._rollup_pending(p_rollup_id) p WHERE p.keys IS NULL), '{}');
    END IF;
    RETURN v_hidden;
END
$$;

COMMENT ON FUNCTION lakets._rollup_hidden(int) IS
    'The buckets of which a RollUp has only a part, and those of which nothing stored is true any more.';
