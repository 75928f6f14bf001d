-- The months of an interval that has nothing but months, else NULL.
CREATE OR REPLACE FUNCTION lakets._months_of(p_interval interval) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN extract(day FROM p_interval) = 0 AND p_interval > interval '0'
         AND p_interval = pg_catalog.make_interval(
                 months => (extract(year FROM p_interval) * 12 + extract(month FROM p_interval))::int)
    THEN (extract(year FROM p_interval) * 12 + extract(month FROM p_interval))::int
END;

COMMENT ON FUNCTION lakets._months_of(interval) IS 'Number of months of an interval of whole months; NULL for any other.';
