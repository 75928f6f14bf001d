-- Asks for dropped ranges back. They come as the chunks that they were, from the lake, when `thermocline run` or a node next looks; then
-- they are read and written like any other, and what is written flows to the lake and to the RollUps. Whole chunks come back, so the
-- range may grow. No policy drops them before p_until has passed, or before they are released. Asked for again, what is back already is
-- kept for as long as is said now.
CREATE OR REPLACE FUNCTION lakets.rehydrate(
    p_table_name  text,
    p_from        timestamptz,
    p_to          timestamptz,
    p_until       interval DEFAULT NULL,
    p_schema_name text     DEFAULT 'public'
) RETURNS TABLE (range_start timestamptz, range_end timestamptz, row_count bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_id    int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_until timestamptz;
    v_kept  int;
    v_against text;
    v_hint  text;
BEGIN
    PERFORM thermocline._require_owner(v_id);
    PERFORM thermocline._require_range(p_table_name, p_from, p_to);
    BEGIN
        v_until := coalesce(now() + p_until, 'infinity');
    EXCEPTION
        WHEN datetime_field_overflow THEN
            RAISE EXCEPTION 'cannot keep % for %: that is longer than PostgreSQL can reckon', p_table_name, p_until
                USING HINT = 'Leave p_until out to keep it until it is released. Nothing was changed.';
    END;
    IF v_until <= now() THEN
        RAISE EXCEPTION 'cannot keep % for %: that is over already', p_table_name, p_until
            USING HINT = 'Give a length of time, as interval ''7 days''. Nothing was changed.';
    END IF;
    UPDATE lakets._chunk_metadata m SET kept_until = v_until
    WHERE m.chronotable_id = v_id AND m.status <> 'dropped' AND m.kept_until IS NOT NULL AND m.range_start < p_to AND m.range_end > p_from;
    GET DIAGNOSTICS v_kept = ROW_COUNT;
    IF v_kept = 0 AND NOT EXISTS (SELECT FROM thermocline._rehydration_plan(v_id, p_from, p_to) p WHERE p.code IS NULL) THEN
        SELECT string_agg(DISTINCT p.message, '; '), min(p.next_step) FILTER (WHERE p.next_step <> 'Nothing to do.')
        INTO v_against, v_hint
        FROM thermocline._rehydration_plan(v_id, p_from, p_to) p;
        RAISE EXCEPTION 'nothing of %.% from % to % can be brought back: %', p_schema_name, p_table_name, p_from, p_to, v_against
            USING HINT = coalesce(v_hint, 'SELECT range_start, range_end FROM thermocline.dropped_range lists what has left.');
    END IF;
    RETURN QUERY
    WITH asked AS (
        INSERT INTO thermocline.rehydration AS r (chronotable_id, range_start, range_end, kept_until)
        SELECT v_id, p.range_start, p.range_end, v_until FROM thermocline._rehydration_plan(v_id, p_from, p_to) p WHERE p.code IS NULL
        ON CONFLICT ON CONSTRAINT rehydration_pkey DO UPDATE
            SET kept_until = excluded.kept_until, reason = NULL, attempts = 0, not_before = excluded.not_before
        RETURNING r.range_start, r.range_end
    )
    SELECT a.range_start, a.range_end, c.row_count
    FROM asked a
    JOIN thermocline.dropped_range d ON d.chronotable_id = v_id AND d.range_start = a.range_start
    LEFT JOIN thermocline.receipt c ON c.id = d.receipt_id
    ORDER BY 1;
END
$$;

COMMENT ON FUNCTION lakets.rehydrate(text, timestamptz, timestamptz, interval, text) IS
    'Asks for dropped ranges of a ChronoTable back from the lake, as chunks that can be written to; returns those that will come.';
