-- Removes the table that an attempt to bring a range back has left behind, if it is still only that. With a reason the attempt has failed: a
-- node waits a minute for the next one, then two, up to a day, since each loads all of the range. A range that was released meanwhile, or
-- whose time is over, is not wanted any more.
CREATE OR REPLACE FUNCTION thermocline._unstage(p_chronotable_id int, p_range_start timestamptz, p_reason text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_staged oid;
BEGIN
    SELECT c.oid INTO v_staged
    FROM thermocline.rehydration r JOIN pg_class c ON c.oid = r.staged_oid AND NOT c.relispartition
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start
      AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m WHERE m.chunk_oid = c.oid AND m.status <> 'dropped');
    IF FOUND THEN
        EXECUTE format('DROP TABLE %s', v_staged::regclass);
    END IF;
    DELETE FROM thermocline.rehydration r
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start AND p_reason IS NOT NULL
      AND r.kept_until <= clock_timestamp();
    UPDATE thermocline.rehydration r
    SET staged_oid = NULL, reason = p_reason,
        attempts = CASE WHEN p_reason IS NULL THEN r.attempts ELSE r.attempts + 1 END,
        not_before = CASE WHEN p_reason IS NULL THEN r.not_before
                          ELSE clock_timestamp() + least(interval '1 minute' * 2 ^ least(r.attempts, 11), interval '1 day') END
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start;
END
$$;

COMMENT ON FUNCTION thermocline._unstage(int, timestamptz, text) IS
    'Removes the table into which a range was being loaded, and notes why it has not come back.';
