-- What speaks against the source and the buckets of a RollUp's query. The bucket's expression is tried on some times: it must be
-- a function of the time alone, keep a bucket's start where it is, and step by the interval that was named.
CREATE OR REPLACE FUNCTION lakets._reasons_against_bucket(
    p_source          oid,
    p_time_column     text,
    p_alias           text,
    p_bucket          text,
    p_expression      text,
    p_interval        interval,
    p_grouped         boolean,
    p_source_table    text,
    p_source_schema   text
) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    -- Months, and days by the clock of a zone, differ in length.
    v_slack   constant interval := CASE WHEN p_interval >= interval '1 day' THEN p_interval / 8 ELSE interval '0' END;
    v_reasons text[] := '{}';
    v_type    regtype;
    v_wrong   boolean;
BEGIN
    IF p_time_column IS NULL THEN
        v_reasons := array_append(v_reasons, format('its source %s is neither a ChronoTable nor a RollUp', p_source::regclass));
    END IF;
    IF p_source_table IS NOT NULL
       AND p_source IS DISTINCT FROM to_regclass(format('%I.%I', p_source_schema, p_source_table))::oid THEN
        v_reasons := array_append(v_reasons, format('its query reads %s, not %s.%s', p_source::regclass, p_source_schema, p_source_table));
    END IF;
    IF p_bucket IS NULL OR NOT p_grouped THEN
        v_reasons := array_append(v_reasons, 'it has no column of time to group by as its bucket');
    END IF;
    IF cardinality(v_reasons) > 0 THEN
        RETURN v_reasons;
    END IF;
    SELECT atttypid INTO STRICT v_type FROM pg_attribute WHERE attrelid = p_source AND attname = p_time_column;
    BEGIN
        SELECT bool_or((s.bucket > s.t OR again.bucket <> s.bucket
                        OR next.bucket - s.bucket NOT BETWEEN p_interval - v_slack AND p_interval + v_slack) IS NOT FALSE)
        INTO v_wrong
        FROM thermocline._buckets_of(p_expression, p_alias, p_time_column, v_type,
                 ARRAY[now(), now() - interval '100 days', timestamptz '1999-07-01 13:14:15']) s,
             thermocline._buckets_of(p_expression, p_alias, p_time_column, v_type, ARRAY[s.bucket]) again,
             thermocline._buckets_of(p_expression, p_alias, p_time_column, v_type,
                 ARRAY[s.bucket + p_interval + p_interval / 2]) next;
    EXCEPTION
        WHEN raise_exception THEN  -- it says so itself
            RETURN ARRAY[SQLERRM];
        WHEN undefined_column OR undefined_table THEN
            RETURN ARRAY[format('its bucket %s is not a function of %I alone', p_expression, p_time_column)];
    END;
    IF v_wrong IS NOT FALSE THEN
        v_reasons := array_append(v_reasons, format('its bucket %s is not one of %s: the third argument says how long it is', p_expression, p_interval));
    END IF;
    RETURN v_reasons;
END
$$;

COMMENT ON FUNCTION lakets._reasons_against_bucket(oid, text, text, text, text, interval, boolean, text, text) IS
    'What speaks against the source and the buckets of a RollUp; empty when nothing does.';
