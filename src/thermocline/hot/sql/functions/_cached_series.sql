-- How many keys a last-value cache has. Runs with its owner's rights: who sees that there is a cache need not be able to read
-- it, and this tells nothing of what is in it. One that is not as it was made is not counted, so that no code of anybody's
-- runs.
CREATE OR REPLACE FUNCTION thermocline._cached_series(p_cache_id int) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_keys bigint;
BEGIN
    IF thermocline._lvc_fits(p_cache_id) THEN
        EXECUTE format('SELECT count(*) FROM %s',
                       (SELECT cache_oid::regclass FROM lakets._lvc_registry WHERE id = p_cache_id)) INTO v_keys;
    END IF;
    RETURN v_keys;
END
$$;

COMMENT ON FUNCTION thermocline._cached_series(int) IS
    'Number of keys in a last-value cache; NULL if it is not there or no longer fits its table.';
REVOKE ALL ON FUNCTION thermocline._cached_series(int) FROM PUBLIC;
