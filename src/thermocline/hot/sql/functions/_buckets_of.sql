-- The buckets that times fall into, by a RollUp's own expression: evaluated on a source that has nothing but the time column.
CREATE OR REPLACE FUNCTION thermocline._buckets_of(
    p_expression  text,
    p_alias       text,
    p_time_column text,
    p_time_type   regtype,
    p_times       timestamptz[]
) RETURNS TABLE (t timestamptz, bucket timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT %1$s.thermocline_time, (%2$s)::timestamptz'
        ' FROM (SELECT u AS thermocline_time, u::%3$s AS %4$I FROM unnest($1) u) AS %1$s',
        p_alias, p_expression, p_time_type, p_time_column) USING p_times;
END
$$;

COMMENT ON FUNCTION thermocline._buckets_of(text, text, text, regtype, timestamptz[]) IS
    'The buckets that times fall into, by the expression of a RollUp.';
