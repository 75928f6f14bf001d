-- Lets go of chunks that came back from the lake: from now on policies see them like any other, and where there is no policy that drops
-- them, a node does, each only if the lake provably holds it. What was asked for and has not come yet is not wanted any more.
CREATE OR REPLACE FUNCTION lakets.release(
    p_table_name  text,
    p_from        timestamptz,
    p_to          timestamptz,
    p_schema_name text DEFAULT 'public'
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id       int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_released int;
    v_unasked  int;
    v_loading  int;
BEGIN
    PERFORM thermocline._require_owner(v_id);
    PERFORM thermocline._require_range(p_table_name, p_from, p_to);
    DELETE FROM thermocline.rehydration r
    WHERE r.chronotable_id = v_id AND r.range_start < p_to AND r.range_end > p_from AND r.staged_oid IS NULL;
    GET DIAGNOSTICS v_unasked = ROW_COUNT;
    -- Whoever loads it finds that out, and removes what there is of it.
    UPDATE thermocline.rehydration r SET kept_until = clock_timestamp(), not_before = clock_timestamp()
    WHERE r.chronotable_id = v_id AND r.range_start < p_to AND r.range_end > p_from AND r.kept_until > clock_timestamp();
    GET DIAGNOSTICS v_loading = ROW_COUNT;
    -- Last, so that what has just come back is found here.
    UPDATE lakets._chunk_metadata m SET kept_until = clock_timestamp()
    WHERE m.chronotable_id = v_id AND m.status <> 'dropped' AND m.kept_until > clock_timestamp()
      AND m.range_start < p_to AND m.range_end > p_from;
    GET DIAGNOSTICS v_released = ROW_COUNT;
    IF v_released + v_unasked + v_loading = 0 THEN
        RAISE NOTICE 'nothing of %.% from % to % is kept', p_schema_name, p_table_name, p_from, p_to;
    END IF;
    RETURN v_released + v_unasked + v_loading;
END
$$;

COMMENT ON FUNCTION lakets.release(text, timestamptz, timestamptz, text) IS
    'Lets go of chunks that came back from the lake; returns how many.';
