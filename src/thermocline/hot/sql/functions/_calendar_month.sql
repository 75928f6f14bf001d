-- Months since the year 0, the same step from every month to the next; PostgreSQL's years jump from -1 to 1.
CREATE OR REPLACE FUNCTION lakets._calendar_month(p_time timestamp) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (extract(year FROM p_time) + CASE WHEN extract(year FROM p_time) < 0 THEN 1 ELSE 0 END) * 12
       + extract(month FROM p_time);

COMMENT ON FUNCTION lakets._calendar_month(timestamp) IS 'Number of the month that a time lies in, counted without gaps.';
