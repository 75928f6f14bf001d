-- Whether a feed owns the stream of this database now: it holds a lock while it does.
CREATE OR REPLACE FUNCTION thermocline._feed_runs() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM pg_locks l
                   WHERE l.locktype = 'advisory' AND l.objsubid = 1
                     AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                     AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('thermocline feed', 0))
$$;

COMMENT ON FUNCTION thermocline._feed_runs() IS 'Whether a feed runs for this database.';
