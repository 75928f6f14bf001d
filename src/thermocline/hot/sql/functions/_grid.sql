-- The steps of the grid of chunks from p_from on, which is the start of one, up to the one that p_to falls into. The grid is counted from
-- its origin, never from the step before: months differ, and nothing may drift.
CREATE OR REPLACE FUNCTION thermocline._grid(p_step interval, p_from timestamptz, p_to timestamptz)
RETURNS TABLE (begins timestamptz, ends timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
    SELECT DISTINCT b, lakets.time_bucket(p_step, b + p_step + p_step / 2)
    FROM generate_series(p_from, p_to + p_step, least(p_step, interval '20 days')) g, lakets.time_bucket(p_step, g) b
    WHERE b <= p_to
$$;

COMMENT ON FUNCTION thermocline._grid(interval, timestamptz, timestamptz) IS 'Start and end of every chunk of a length within a time.';
