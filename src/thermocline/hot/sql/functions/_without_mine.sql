-- A snapshot in which this transaction counts as open, as it does for others: what it writes later has the same id as what it has
-- written. It is when it is not below the snapshot's end; otherwise it is put among those that are open.
CREATE OR REPLACE FUNCTION thermocline._without_mine(p_snapshot pg_snapshot) RETURNS pg_snapshot
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN m.xid >= pg_snapshot_xmax(p_snapshot) THEN p_snapshot
                ELSE format('%s:%s:%s', least(pg_snapshot_xmin(p_snapshot), m.xid), pg_snapshot_xmax(p_snapshot),
                            (SELECT string_agg(x::text, ',' ORDER BY x)
                             FROM (SELECT pg_snapshot_xip(p_snapshot) UNION SELECT m.xid) o (x)))::pg_snapshot END
    FROM (SELECT pg_current_xact_id() AS xid) m
$$;

COMMENT ON FUNCTION thermocline._without_mine(pg_snapshot) IS 'A snapshot in which this transaction is still open.';
