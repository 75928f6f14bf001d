-- Brings a RollUp up to date, unless it was refreshed within its refresh_lag.
CREATE OR REPLACE FUNCTION lakets.refresh_rollup(p_name text) RETURNS boolean
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT lakets._refresh_rollup(thermocline._rollup_id(p_name), false)
$$;

COMMENT ON FUNCTION lakets.refresh_rollup(text) IS
    'Brings a RollUp up to date; false when it was refreshed within its refresh_lag or somebody else is at it.';
