-- Whether work may begin at a time: within the window if it runs in it, outside if it pauses in it. A window over midnight begins later
-- than it ends; no window is always open. Times are UTC.
CREATE OR REPLACE FUNCTION thermocline._work_window_open(p_start time, p_end time, p_means text, p_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_start IS NULL OR (p_means = 'runs') = (CASE
    WHEN p_start < p_end THEN (p_at AT TIME ZONE 'UTC')::time >= p_start AND (p_at AT TIME ZONE 'UTC')::time < p_end
    ELSE (p_at AT TIME ZONE 'UTC')::time >= p_start OR (p_at AT TIME ZONE 'UTC')::time < p_end
END);

COMMENT ON FUNCTION thermocline._work_window_open(time, time, text, timestamptz) IS
    'Whether a window of a schedule lets work begin at this time.';
