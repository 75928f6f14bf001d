-- Drops the chunks of a table that ended at least p_older_than ago, by the same rules as a retention policy.
CREATE OR REPLACE FUNCTION lakets.drop_chunks(
    p_table_name  text,
    p_older_than  interval,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_id    int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_until timestamptz;
BEGIN
    IF p_older_than IS NULL OR p_older_than < interval '0' THEN
        RAISE EXCEPTION 'p_older_than is % for %.%: how old may chunks be?',
            CASE WHEN p_older_than IS NULL THEN 'missing' ELSE format('%L', p_older_than) END, p_schema_name, p_table_name
            USING HINT = 'Give an interval that is not negative, for example ''90 days''.';
    END IF;
    v_until := thermocline._age_limit(p_older_than::text, 'p_older_than', format('drop_chunks of %s.%s', p_schema_name, p_table_name));
    RETURN thermocline._drop_chunks(
        v_id, v_until, lakets._is_gated(v_id), false, format('drop_chunks: older than %s', p_older_than));
END
$$;

COMMENT ON FUNCTION lakets.drop_chunks(text, interval, text) IS
    'Drops the chunks of a ChronoTable that ended at least p_older_than ago; returns how many.';
