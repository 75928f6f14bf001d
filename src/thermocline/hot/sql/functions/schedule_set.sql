-- Says when a kind of work is due: for one table, or, without a table, for all that have no schedule of their own. What is not given
-- stays as it is; a table that had none of its own starts from the one for all. Times of p_cron and p_window are UTC. A window is
-- 'runs 22:00-06:00' or 'pauses 09:00-17:00'; an empty text removes it. Chunks are made ahead for as long as the schedule of partitions may
-- leave between two runs, at once when it is set; one that leaves more than they can be made ahead for is refused.
CREATE OR REPLACE FUNCTION lakets.schedule_set(
    p_kind        text,
    p_table_name  text     DEFAULT NULL,
    p_schema_name text     DEFAULT 'public',
    p_every       interval DEFAULT NULL,
    p_cron        text     DEFAULT NULL,
    p_window      text     DEFAULT NULL,
    p_enabled     boolean  DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table  int;
    v_all    thermocline.schedule;
    v_window text[] := regexp_match(p_window, '^(runs|pauses) ([0-2]?\d:[0-5]\d)-([0-2]?\d:[0-5]\d)$');
    v_field  text;
    v_id     int;
BEGIN
    SELECT * INTO v_all FROM thermocline.schedule WHERE kind = p_kind AND chronotable_id IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no kind of work called %', quote_literal(p_kind)
            USING HINT = format('The kinds are %s.', (SELECT string_agg(kind, ', ' ORDER BY kind)
                                                     FROM thermocline.schedule WHERE chronotable_id IS NULL));
    END IF;
    IF p_table_name IS NOT NULL AND NOT v_all.by_table THEN
        RAISE EXCEPTION '% is for the whole database, so it has no schedule of a table', p_kind
            USING HINT = 'Set it without a table.';
    END IF;
    IF p_table_name IS NOT NULL THEN
        v_table := lakets._chronotable_id(p_table_name, p_schema_name);
        PERFORM thermocline._require_owner(v_table);
    END IF;
    IF p_every IS NOT NULL AND p_cron IS NOT NULL THEN
        RAISE EXCEPTION 'the schedule of % has either p_every or p_cron, not both', p_kind
            USING HINT = 'Give one of them.';
    END IF;
    IF p_every < interval '1 second' OR p_every > interval '366 days' OR extract(month FROM p_every) <> 0 OR extract(year FROM p_every) <> 0 THEN
        RAISE EXCEPTION 'work cannot be due every %', p_every
            USING HINT = 'Give a second or more and 366 days or less, in days, hours, minutes and seconds; months are for p_cron.';
    END IF;
    IF p_cron !~ '^\S+( \S+){4}$' THEN
        RAISE EXCEPTION '% is no cron line', quote_literal(p_cron)
            USING HINT = 'It has five fields: minute, hour, day, month, weekday, as ''0 3 * * *''.';
    END IF;
    -- A node reads the line in full; what it could not read is refused here as far as can be told, or the work would never be due.
    SELECT f.field INTO v_field FROM string_to_table(p_cron, ' ') WITH ORDINALITY f (field, n)
    WHERE f.field !~* (ARRAY['^[0-9*,/-]+$', '^[0-9*,/-]+$', '^[0-9LW*,/-]+$',
                             '^([0-9*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)+$',
                             '^([0-9L*,/#-]|sun|mon|tue|wed|thu|fri|sat)+$'])[f.n]
       OR EXISTS (SELECT FROM regexp_matches(regexp_replace(f.field, '[/#][0-9]+', '', 'g'), '[0-9]+', 'g') d
                  WHERE d[1]::numeric NOT BETWEEN (ARRAY[0, 0, 1, 1, 0])[f.n] AND (ARRAY[59, 23, 31, 12, 7])[f.n])
    ORDER BY f.n LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is no cron line: %', quote_literal(p_cron), v_field
            USING HINT = 'Minutes are 0 to 59, hours 0 to 23, days 1 to 31, months 1 to 12, weekdays 0 to 7, as in ''0 3 * * *''. Times are UTC.';
    END IF;
    IF p_window <> '' AND (v_window IS NULL OR v_window[2]::interval >= '24 hours' OR v_window[3]::interval >= '24 hours'
                           OR v_window[2]::interval = v_window[3]::interval) THEN
        RAISE EXCEPTION '% is no window', quote_literal(p_window)
            USING HINT = 'Write ''runs 22:00-06:00'' or ''pauses 09:00-17:00'', in UTC.';
    END IF;

    INSERT INTO thermocline.schedule (kind, chronotable_id, every, cron, window_start, window_end, window_means, enabled)
    VALUES (p_kind, v_table, v_all.every, v_all.cron, v_all.window_start, v_all.window_end, v_all.window_means, v_all.enabled)
    ON CONFLICT (kind, chronotable_id) DO NOTHING;
    UPDATE thermocline.schedule SET
        every        = CASE WHEN p_cron IS NULL THEN coalesce(p_every, every) END,
        cron         = CASE WHEN p_every IS NULL THEN coalesce(p_cron, cron) END,
        window_means = CASE WHEN p_window IS NULL THEN window_means ELSE v_window[1] END,
        window_start = CASE WHEN p_window IS NULL THEN window_start ELSE v_window[2]::time END,
        window_end   = CASE WHEN p_window IS NULL THEN window_end ELSE v_window[3]::time END,
        enabled      = coalesce(p_enabled, enabled),
        problem      = NULL,
        set_at       = now(),
        set_by       = session_user
    WHERE kind = p_kind AND chronotable_id IS NOT DISTINCT FROM v_table
    RETURNING id INTO STRICT v_id;
    IF p_kind = 'partitions' THEN
        PERFORM thermocline._follow_schedule(v_table);
    END IF;
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets.schedule_set(text, text, text, interval, text, text, boolean) IS
    'Sets when a kind of background work is due, for one ChronoTable or for all; returns the id of the schedule.';
