-- Whether a late row has to be marked: each of the first thousand of a transaction, after that the first of every hour. The WHEN of the
-- triggers asks it, and not for a row in the hour of the one before. It remembers what it has said in settings of the
-- transaction, because the trigger itself runs only when its statement ends, and a COPY of millions is one statement. The trigger marks
-- all hours that are remembered here; a rollback to a savepoint takes back both. Beyond a hundred pieces it is all between the
-- first and the last.
CREATE OR REPLACE FUNCTION lakets._to_be_marked(p_chronotable_id int, p_at timestamptz) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    c_exact  constant int := 1000;
    c_pieces constant int := 100;
    v_count  int := coalesce(nullif(current_setting('thermocline.late_' || p_chronotable_id, true), ''), '0')::int;
    v_hour   timestamptz := date_bin('1 hour', p_at, '2000-01-01');
    v_hours  tstzmultirange;
BEGIN
    IF v_count < c_exact THEN
        PERFORM set_config('thermocline.late_' || p_chronotable_id, (v_count + 1)::text, true);
        RETURN true;
    END IF;
    v_hours := coalesce(nullif(current_setting('thermocline.hours_' || p_chronotable_id, true), ''), '{}')::tstzmultirange;
    PERFORM set_config('thermocline.hour_' || p_chronotable_id, extract(epoch FROM v_hour)::text, true);
    IF p_at <@ v_hours THEN
        RETURN false;
    END IF;
    v_hours := v_hours + tstzmultirange(tstzrange(v_hour, v_hour + interval '1 hour'));
    IF (SELECT count(*) FROM unnest(v_hours)) > c_pieces THEN
        v_hours := tstzmultirange(range_merge(v_hours));
    END IF;
    PERFORM set_config('thermocline.hours_' || p_chronotable_id, v_hours::text, true);
    RETURN true;
END
$$;

COMMENT ON FUNCTION lakets._to_be_marked(int, timestamptz) IS 'Whether a late row has to be marked, or its transaction has marked its hour.';

-- The WHEN of a trigger runs with the rights of whoever writes.
GRANT EXECUTE ON FUNCTION lakets._to_be_marked(int, timestamptz) TO PUBLIC;
