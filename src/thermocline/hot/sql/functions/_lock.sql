-- Locks one table, its partitions not, and gives way rather than stand in anybody's way. Two rules make sure that an
-- application never is the victim of a deadlock with us: a wait ends before anybody's search for deadlocks could see it,
-- and while somebody already waits for this transaction there is no wait at all.
CREATE OR REPLACE FUNCTION thermocline._lock(p_table oid, p_mode text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_held   text := replace(initcap(p_mode), ' ', '') || 'Lock';
    v_nowait text := '';
BEGIN
    IF EXISTS (SELECT FROM pg_locks w WHERE NOT w.granted AND pg_backend_pid() = ANY (pg_blocking_pids(w.pid))) THEN
        v_nowait := ' NOWAIT';
    END IF;
    PERFORM set_config('lock_timeout', least(400, s.setting::int / 2)::text, true)
    FROM pg_settings s WHERE s.name = 'deadlock_timeout';
    EXECUTE format('LOCK TABLE ONLY %s IN %s MODE%s', p_table::regclass, p_mode, v_nowait);
    -- The statement has a name in it and somebody may have renamed the table before we had the lock.
    IF NOT EXISTS (
        SELECT FROM pg_locks l
        WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation = p_table AND l.mode = v_held AND l.granted
    ) THEN
        RAISE EXCEPTION 'another table has the name of % now', p_table USING ERRCODE = 'lock_not_available';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._lock(oid, text) IS
    'Takes a lock on a table, or fails with lock_not_available before it could cost an application its transaction.';
