-- Whether single keys of a RollUp's buckets have changed since they were computed: without any, its real-time view has no row to look
-- up. Readers of a real-time view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._has_pending_keys(p_rollup_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM thermocline._marks(p_rollup_id) m WHERE m.keys IS NOT NULL);
END
$$;

COMMENT ON FUNCTION lakets._has_pending_keys(int) IS 'Whether a RollUp has marks of single keys.';
