-- How long the changes of a synced table may wait until they are committed to the lake: each commit is a snapshot and a file or more, so a
-- table that nobody watches by the second is better off with a longer interval. NULL is the setting feed.interval again. It is heard by
-- the feed that runs, at once, and kept when sync is disabled and enabled again.
CREATE OR REPLACE FUNCTION lakets.set_commit_interval(
    p_table_name  text,
    p_interval    interval,
    p_schema_name text DEFAULT 'public'
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_target record;
BEGIN
    SELECT * INTO STRICT v_target FROM thermocline._sync_target(p_table_name, p_schema_name);
    IF p_interval < interval '0' OR p_interval > interval '1 hour' THEN
        RAISE EXCEPTION 'cannot commit % every %: it is from 0 to one hour', v_target.title, p_interval
            USING HINT = 'Until a table is committed, PostgreSQL keeps its log. Nothing was changed.';
    END IF;
    UPDATE thermocline.synced_table SET commit_interval = p_interval
    WHERE chronotable_id = v_target.id AND status <> 'TERMINATED';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'cannot set the commit interval of %: it is not synced', v_target.title
            USING HINT = format('SELECT lakets.enable_sync(%L, %L); first.', p_table_name, p_schema_name);
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.set_commit_interval(text, interval, text) IS
    'Sets how long changes of a synced table or RollUp may wait for their commit to the lake; NULL: as the setting feed.interval says.';
