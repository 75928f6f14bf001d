-- The buckets that times fall into, by a RollUp's own expression: evaluated on a source that has nothing but the time column. Readers of
-- a real-time view have it evaluated with our rights, and whoever may write to the registry may write the expression. So it is looked at
-- each time: nothing but strings, the column, and what cuts time into buckets may be in it.
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
DECLARE
    c_words constant text[] := '{date_bin, date_trunc, time_bucket, timezone, AT, TIME, ZONE, interval, timestamp, with, without, time, zone,
                                 date, text, "NULL", p_interval, p_timestamp, p_origin, p_timezone}';
    v_rest  text := replace(regexp_replace(p_expression, '''(?:[^'']|'''')*''', ' ', 'g'), 'lakets.time_bucket(', 'time_bucket(');
BEGIN
    IF p_alias !~ '^("(?:[^"]|"")+"|[[:alpha:]_][[:alnum:]_$]*)$'
       OR v_rest ~ '[;\\$]|::[^,()]*\.|\.\s*("(?:[^"]|"")*"|[[:alnum:]_]+)\s*\('  -- nobody else's functions and types
       OR EXISTS (SELECT FROM regexp_matches(v_rest, '"(?:[^"]|"")*"|[[:alpha:]_][[:alnum:]_]*', 'g') w
                  WHERE w[1] <> ALL (c_words || p_alias || quote_ident(p_time_column))) THEN
        RAISE EXCEPTION 'its bucket % is not a function of % alone, by date_bin, date_trunc or time_bucket', p_expression,
            quote_ident(p_time_column) USING HINT = 'Group by one of these, of the column of time.';
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT %1$s.thermocline_time, (%2$s)::timestamptz'
        ' FROM (SELECT u AS thermocline_time, u::%3$s AS %4$I FROM unnest($1) u) AS %1$s',
        p_alias, p_expression, p_time_type, p_time_column) USING p_times;
END
$$;

COMMENT ON FUNCTION thermocline._buckets_of(text, text, text, regtype, timestamptz[]) IS
    'The buckets that times fall into, by the expression of a RollUp.';
