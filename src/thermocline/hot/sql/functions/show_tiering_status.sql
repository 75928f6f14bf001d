-- Every table with a tiering policy: how many of its chunks wait, what their going frees, and how far its feed is. What is not
-- known is NULL, and caught_up is true only if a feed runs and the lake is known to be past the newest change of every chunk
-- that waits: as the stream has shown it, and as the marks of late writes say that came since the feed was last heard of.
-- With p_verdicts it tells of every resident chunk what becomes of it, why, since when, what to do, and the position of its newest change.
CREATE OR REPLACE FUNCTION lakets.show_tiering_status(
    p_table_name  text DEFAULT NULL,
    p_schema_name text DEFAULT 'public',
    p_verdicts    boolean DEFAULT false
) RETURNS TABLE (
    schema_name       text,
    table_name        text,
    after             text,
    active_chunks     int,
    tiered_chunks     int,
    pending_chunks    int,
    reclaimable_bytes bigint,
    reclaimed_bytes   bigint,
    cdf_status        text,
    cdf_lag_bytes     bigint,
    caught_up         boolean,
    last_run_at       timestamptz,
    verdicts          jsonb
)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH asked AS (
        SELECT r.*, p.after, p.last_run_at, s.status AS sync_status, s.committed_lsn,
               (SELECT t.moved_at FROM thermocline.stream t) AS moved_at
        FROM lakets._chronotable_registry r
        JOIN LATERAL (
            SELECT coalesce(o.config ->> 'after', o.config ->> 'tier_after') AS after, o.last_run_at
            FROM lakets._policy_registry o
            WHERE o.chronotable_id = r.id AND o.policy_type IN ('tiering', 'tiered_retention')
            ORDER BY coalesce(o.config ->> 'after', o.config ->> 'tier_after')::interval LIMIT 1
        ) p ON true
        LEFT JOIN thermocline.synced_table s ON s.chronotable_id = r.id
        WHERE p_table_name IS NULL OR r.id = lakets._chronotable_id(p_table_name, p_schema_name)
    ), written AS (
        SELECT a.id, range_agg(tstzrange(l.first_time, l.last_time, '[]')) AS times
        FROM asked a JOIN lakets._rollup_invalidation_log l
          ON l.chronotable_id = a.id AND l.rollup_id IS NULL AND l.invalidated_at > a.moved_at
        GROUP BY a.id
    ), chunks AS (
        SELECT a.id, m.status, m.status = 'active' AND m.range_end <= now() - a.after::interval AS pending,
               CASE m.status WHEN 'dropped' THEN m.size_bytes ELSE thermocline._size_of(c.oid, c.reltoastrelid, c.relpersistence) END AS bytes,
               a.committed_lsn >= greatest(m.last_write_lsn, y.position)
                   AND NOT coalesce(w.times && tstzrange(m.range_start, m.range_end), false) AS reached
        FROM asked a
        JOIN lakets._chunk_metadata m ON m.chronotable_id = a.id
        LEFT JOIN written w ON w.id = a.id
        LEFT JOIN pg_class c ON c.oid = m.chunk_oid AND m.status <> 'dropped'
        LEFT JOIN thermocline.chunk_copy y ON y.chunk_oid = m.chunk_oid AND m.status <> 'dropped'
    ), summed AS (
        SELECT c.id, count(*) FILTER (WHERE c.status = 'active') AS active, count(*) FILTER (WHERE c.status = 'tiered') AS tiered,
               count(*) FILTER (WHERE c.pending) AS pending,
               coalesce(sum(c.bytes) FILTER (WHERE c.status = 'tiered'), 0) AS reclaimable,
               coalesce(sum(c.bytes) FILTER (WHERE c.status = 'dropped'), 0) AS reclaimed,
               coalesce(bool_and(c.reached IS TRUE) FILTER (WHERE c.pending), true) AS reached
        FROM chunks c GROUP BY c.id
    )
    SELECT a.schema_name, a.table_name, a.after, s.active::int, s.tiered::int, s.pending::int, s.reclaimable::bigint,
           s.reclaimed::bigint,
           CASE WHEN a.sync_status IS NULL OR a.sync_status = 'TERMINATED' THEN 'NONE'
                WHEN a.sync_status = 'JOINING' THEN 'SNAPSHOTTING' ELSE a.sync_status END,
           CASE WHEN a.sync_status = 'STREAMING'
                THEN greatest(0, pg_wal_lsn_diff(pg_current_wal_flush_lsn(), a.committed_lsn))::bigint END,
           coalesce(a.sync_status = 'STREAMING' AND s.reached AND thermocline._feed_runs(), false),
           a.last_run_at, v.verdicts
    FROM asked a JOIN summed s ON s.id = a.id
    LEFT JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object('chunk', x.chunk_name, 'state', x.state, 'verdict', x.verdict, 'reason', x.reason,
                                            'message', x.message, 'since', x.since, 'next_step', x.next_step,
                                            'last_write_lsn', m.last_write_lsn)
                         ORDER BY x.range_start) AS verdicts
        FROM unnest(CASE WHEN p_verdicts THEN ARRAY[a.id] END) o (id)
        CROSS JOIN LATERAL thermocline._verdicts(o.id) x
        JOIN lakets._chunk_metadata m ON m.chronotable_id = o.id AND m.chunk_oid = x.chunk_oid AND m.status <> 'dropped'
    ) v ON true
    ORDER BY a.schema_name, a.table_name
$$;

COMMENT ON FUNCTION lakets.show_tiering_status(text, text, boolean) IS
    'Tables with a tiering policy: chunks that wait, bytes that their going frees, how far the feed is, and if asked for the verdict on every chunk.';
