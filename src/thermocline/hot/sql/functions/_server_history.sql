-- Which history of which server this is. The timeline is that of the log being written now: the control file still has
-- the old one for a while after a promotion.
CREATE OR REPLACE FUNCTION thermocline._server_history(OUT system_identifier bigint, OUT timeline int)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
    FROM pg_control_system() c
$$;

COMMENT ON FUNCTION thermocline._server_history() IS 'System identifier and timeline of this server, as they are now.';
