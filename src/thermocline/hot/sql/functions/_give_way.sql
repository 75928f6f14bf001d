-- Runs a statement of ours that gives up rather than wait long for a lock, since others queue behind whoever waits. It ends
-- before anybody's search for deadlocks could see it.
CREATE OR REPLACE FUNCTION thermocline._give_way(p_statement text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
BEGIN
    PERFORM set_config('lock_timeout', least(400, s.setting::int / 2)::text, true)
    FROM pg_settings s WHERE s.name = 'deadlock_timeout';
    EXECUTE p_statement;
END
$$;

COMMENT ON FUNCTION thermocline._give_way(text) IS
    'Runs a statement, or fails with lock_not_available before others have queued behind it for long.';
