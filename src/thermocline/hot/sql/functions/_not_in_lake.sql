-- The first of some columns of a table that has, within some times, a value that the lake's types cannot hold: an infinite or far-off time, or a
-- numeric that is no number. NULL when there is none.
CREATE OR REPLACE FUNCTION thermocline._not_in_lake(p_table oid, p_time_column text, p_columns text[], p_times tstzmultirange)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_column record;
    v_found  boolean;
BEGIN
    FOR v_column IN
        SELECT a.attname, a.atttypid::regtype AS type, t.atttypid::regtype AS time_type
        FROM pg_attribute a JOIN pg_attribute t ON t.attrelid = p_table AND t.attname = p_time_column
        WHERE a.attrelid = p_table AND a.attname = ANY (p_columns)
          AND a.atttypid IN ('numeric'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
        ORDER BY a.attnum
    LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM %1$s x, unnest($1) d (r) WHERE x.%2$I >= lower(d.r)::%3$s AND x.%2$I < upper(d.r)::%3$s AND %4$s)',
            p_table::regclass, p_time_column, v_column.time_type,
            CASE WHEN v_column.type = 'numeric'::regtype
                 THEN format('x.%I IN (''NaN'', ''Infinity'', ''-Infinity'')', v_column.attname)
                 ELSE format('(x.%1$I < ''0001-01-01'' OR x.%1$I >= ''10000-01-01'')', v_column.attname) END)
        INTO v_found USING p_times;
        IF v_found THEN
            RETURN v_column.attname;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._not_in_lake(oid, text, text[], tstzmultirange) IS
    'The first of some columns with a value that the lake cannot hold.';
