-- Whether a query selects just the types that the table of a RollUp has, in their order; nothing of it is run.
CREATE OR REPLACE FUNCTION thermocline._answer_fits(p_table oid, p_query text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_fits boolean;
BEGIN
    EXECUTE format('CREATE TEMPORARY TABLE thermocline_fitted AS %s WITH NO DATA', p_query);
    SELECT (SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a
            WHERE a.attrelid = 'pg_temp.thermocline_fitted'::regclass AND a.attnum > 0)
           = (SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a
              WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped)
    INTO v_fits;
    DROP TABLE pg_temp.thermocline_fitted;
    RETURN v_fits;
END
$$;

COMMENT ON FUNCTION thermocline._answer_fits(oid, text) IS 'Whether a query selects the types of a RollUp''s table.';
