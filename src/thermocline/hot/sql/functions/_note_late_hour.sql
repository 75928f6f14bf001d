-- Notes the hour of a late row to a range that has left PostgreSQL, unless the transaction has noted it for the row before.
CREATE OR REPLACE FUNCTION thermocline._note_late_hour(p_chronotable_id int, p_at timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_hour timestamptz := date_bin('1 hour', p_at, '2000-01-01');
BEGIN
    IF current_setting('thermocline.noted_' || p_chronotable_id, true) IS DISTINCT FROM v_hour::text THEN
        PERFORM thermocline._note_late(p_chronotable_id, v_hour, v_hour + interval '1 hour' - interval '1 microsecond');
        PERFORM set_config('thermocline.noted_' || p_chronotable_id, v_hour::text, true);
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._note_late_hour(int, timestamptz) IS 'Notes the hour of a late row, once for rows that follow each other.';
