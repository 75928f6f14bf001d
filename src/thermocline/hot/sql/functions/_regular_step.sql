-- How long every bucket of an expression is, if they are all alike: a date_bin or a time_bucket of a plain column, without months and
-- without a zone. NULL otherwise.
CREATE OR REPLACE FUNCTION thermocline._regular_step(p_expression text) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.step
    FROM (SELECT (regexp_match(p_expression, '^(?:date_bin|lakets\.time_bucket)\(''([^'']+)''::interval, [^,()]+'
                                             '(?:, ''[^'']+''::timestamp[^,]*)?\)$'))[1]::interval AS step) s
    WHERE extract(month FROM s.step) + extract(year FROM s.step) = 0
$$;

COMMENT ON FUNCTION thermocline._regular_step(text) IS 'How long every bucket of an expression is; NULL if they differ.';
