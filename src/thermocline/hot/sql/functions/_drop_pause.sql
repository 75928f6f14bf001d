-- What keeps everybody from dropping chunks: the oldest pause that is about it, in words, and how it ends. NULL when nothing does.
CREATE OR REPLACE FUNCTION thermocline._drop_pause(OUT message text, OUT hint text)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('Nothing is dropped: %s is paused since %s UTC by %s%s.',
                  s.what, to_char(s.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), s.who, ': ' || nullif(s.why, '')),
           format('`thermocline work pause %s --off` ends the pause.', s.what)
    FROM thermocline.work_stop s
    WHERE s.what IN ('everything', 'destructive', 'retention') ORDER BY s.at LIMIT 1
$$;

COMMENT ON FUNCTION thermocline._drop_pause() IS 'The pause that keeps everybody from dropping chunks, if there is one.';
