-- A range of time that somebody gave: both ends, finite, the first before the second.
CREATE OR REPLACE FUNCTION thermocline._require_range(p_table_name text, p_from timestamptz, p_to timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_from IS NULL OR p_to IS NULL OR NOT isfinite(p_from) OR NOT isfinite(p_to) OR p_from >= p_to THEN
        RAISE EXCEPTION 'from % to % is not a range of %', coalesce(p_from::text, 'NULL'), coalesce(p_to::text, 'NULL'), p_table_name
            USING HINT = 'Give two times, the first before the second. Nothing was changed.';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_range(text, timestamptz, timestamptz) IS 'Refuses what is not a range of time.';
