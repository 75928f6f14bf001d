-- Says how long a refresh of a RollUp does nothing after the last one: a node refreshes it as often as that. 0 lets every refresh do
-- its work.
CREATE OR REPLACE FUNCTION lakets.set_refresh_lag(p_rollup_name text, p_refresh_lag interval) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id int := thermocline._own_rollup_id(p_rollup_name);
BEGIN
    IF p_refresh_lag IS NULL OR p_refresh_lag < interval '0' THEN
        RAISE EXCEPTION 'cannot set the refresh_lag of % to %', p_rollup_name, coalesce(p_refresh_lag::text, 'NULL')
            USING HINT = 'Give an interval, 0 or longer.';
    END IF;
    UPDATE lakets._rollup_registry SET refresh_lag = p_refresh_lag WHERE id = v_id;
END
$$;

COMMENT ON FUNCTION lakets.set_refresh_lag(text, interval) IS
    'How long after a refresh of a RollUp the next one does nothing; 0: never.';
