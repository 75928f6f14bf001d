-- How many chunks one call may drop: lakets.max_drops_per_call, or ten. PostgreSQL takes anything for a setting of ours, so
-- what is no number from one on is refused here.
CREATE OR REPLACE FUNCTION thermocline._most_drops() RETURNS int
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_given text := coalesce(nullif(current_setting('lakets.max_drops_per_call', true), ''), '10');
BEGIN
    IF v_given !~ '^[1-9][0-9]{0,8}$' THEN
        RAISE EXCEPTION 'lakets.max_drops_per_call is %, which is no number of chunks', quote_literal(v_given)
            USING HINT = 'SET lakets.max_drops_per_call = 10, or another number from 1 on; RESET brings back the default.';
    END IF;
    RETURN v_given::int;
END
$$;

COMMENT ON FUNCTION thermocline._most_drops() IS 'How many chunks one call may drop.';
