-- Makes a query a view for as long as it is looked at: what it selects, and from where, is read from the catalog. It is not run.
-- Names in it are looked up along p_path. The caller drops the view.
CREATE OR REPLACE FUNCTION thermocline._as_view(p_query text, p_path text) RETURNS oid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_query text := rtrim(p_query, E'; \n\t');
    v_alone refcursor;
BEGIN
    PERFORM set_config('search_path', p_path, true);
    OPEN v_alone NO SCROLL FOR EXECUTE v_query;  -- refuses a second statement behind the first
    CLOSE v_alone;
    EXECUTE format('CREATE TEMPORARY VIEW thermocline_query AS %s', v_query);
    PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    RETURN 'pg_temp.thermocline_query'::regclass;
EXCEPTION
    WHEN OTHERS THEN
        RAISE EXCEPTION 'the query is not understood: %', SQLERRM USING HINT = 'Give one SELECT, as you would run it.';
END
$$;

COMMENT ON FUNCTION thermocline._as_view(text, text) IS
    'Makes a query the temporary view thermocline_query and returns its oid.';
