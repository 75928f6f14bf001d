-- The names in the objects of a JSON array, or NULL if one of its elements is no object. Most batches name the same in every object: one
-- look that finds nothing else is cheaper than a list of all names. (It takes the names from the first object in the query: an array of
-- a variable would be unpacked for every object. To look at the size of what is left is cheaper than to compare it. An empty array among
-- the objects passes here; whoever inserts refuses it. With a plan for any parameter the array is not copied into the plan.)
CREATE OR REPLACE FUNCTION lakets._names_in(p_objects jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    c_empty constant int := pg_column_size(jsonb '{}');
    v_first constant jsonb := p_objects -> 0;
BEGIN
    BEGIN
        IF NOT EXISTS (
            SELECT FROM (SELECT coalesce(array_agg(k), '{}') AS names FROM jsonb_object_keys(v_first) k) f, jsonb_array_elements(p_objects) e
            WHERE pg_column_size(e - f.names) > c_empty) THEN
            RETURN ARRAY(SELECT jsonb_object_keys(v_first));
        END IF;
    EXCEPTION
        WHEN invalid_parameter_value THEN  -- from a number nothing can be taken away
            NULL;
    END;
    IF EXISTS (SELECT FROM jsonb_array_elements(p_objects) e WHERE jsonb_typeof(e) <> 'object') THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT DISTINCT k FROM jsonb_array_elements(p_objects) e, jsonb_object_keys(e) k);
END
$$;

COMMENT ON FUNCTION lakets._names_in(jsonb) IS 'The names in the objects of a JSON array; NULL if one of its elements is no object.';
