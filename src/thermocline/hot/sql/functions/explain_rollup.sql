-- What the next refresh of a RollUp has to do, why and since when, and what stands in the way of its watermark. The rows that it will
-- read are estimates of the planner; nothing is computed.
CREATE OR REPLACE FUNCTION lakets.explain_rollup(p_name text)
RETURNS TABLE (
    item         text,
    reason       text,
    since        timestamptz,
    range_start  timestamptz,
    range_end    timestamptz,
    how_many     bigint,
    rows_to_read bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_id     int := thermocline._rollup_id(p_name);
    v_rollup lakets._rollup_registry;
    v_whole  tstzmultirange;
    v_frozen tstzmultirange;
    v_tail   timestamptz;
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    PERFORM thermocline._require_rollup_table(v_rollup);
    RETURN QUERY
    SELECT 'marks', m.reason, min(m.marked_at), min(m.first_time), max(m.last_time), count(*), NULL::bigint
    FROM thermocline._marks(v_rollup) m WHERE m.first_time < v_rollup.watermark GROUP BY m.reason ORDER BY 3;

    SELECT coalesce(range_agg(tstzrange(p.bucket, p.bucket_end)) FILTER (WHERE p.keys IS NULL), '{}') INTO v_whole
    FROM lakets._rollup_pending(v_id) p;
    RETURN QUERY
    SELECT 'buckets', 'computed anew, all keys', NULL::timestamptz, min(p.bucket), max(p.bucket_end), count(*),
           thermocline._planned_rows(v_rollup, v_whole)
    FROM lakets._rollup_pending(v_id) p WHERE p.keys IS NULL HAVING count(*) > 0;
    RETURN QUERY
    SELECT 'keys', 'computed anew, these keys of their buckets', NULL::timestamptz, min(p.bucket), max(p.bucket_end), count(*),
           -- As many rows for each as there are for any: those of the source by those of the RollUp.
           (count(*) * thermocline._planned_rows(v_rollup, '{(,)}')
            / greatest(1, (SELECT c.reltuples FROM pg_class c WHERE c.oid = v_rollup.rollup_oid)))::bigint
    FROM lakets._rollup_pending(v_id) p WHERE p.keys IS NOT NULL HAVING count(*) > 0;

    v_frozen := thermocline._frozen_buckets(v_rollup);
    IF isfinite(v_rollup.watermark) THEN
        SELECT b.bucket INTO v_tail
        FROM thermocline._buckets_of_rollup(v_rollup, ARRAY[v_rollup.watermark - v_rollup.bucket_interval / 2]) b;
    END IF;
    RETURN QUERY
    SELECT 'newest', 'from one bucket before the watermark on', v_rollup.last_refreshed_at, v_tail, NULL::timestamptz, NULL::bigint,
           thermocline._planned_rows(v_rollup, tstzmultirange(tstzrange(v_tail, NULL)) - v_frozen);
    RETURN QUERY
    SELECT 'incomplete', 'rows left PostgreSQL before the bucket was whole; the view does not show it', NULL::timestamptz,
           lower(r), upper(r), NULL::bigint, NULL::bigint FROM unnest(v_rollup.incomplete) r;
    RETURN QUERY
    SELECT 'frozen', 'rows have left PostgreSQL; stays as it was computed last', NULL::timestamptz, lower(r), upper(r),
           NULL::bigint, NULL::bigint FROM unnest(v_frozen - v_rollup.incomplete) r;
    RETURN QUERY
    SELECT 'recompute', format('%s; rows have left PostgreSQL, so it takes `thermocline rollup recompute`', m.reason), min(m.marked_at),
           min(m.first_time), max(m.last_time), count(*), NULL::bigint
    FROM lakets._rollup_recompute m WHERE m.rollup_id = v_id GROUP BY m.reason ORDER BY 3;
    RETURN QUERY
    SELECT 'holder', h.who || CASE WHEN h.database <> current_database() THEN format(' in the database %s', h.database) ELSE '' END
                     || CASE WHEN h.since IS NULL THEN '; since when is told to members of pg_read_all_stats' ELSE '' END,
           h.since, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint
    FROM (SELECT format('transaction of process %s%s', a.pid, coalesce(' (' || nullif(a.application_name, '') || ')', '')),
                 a.xact_start, a.backend_xid, a.datname
          FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid()
          UNION ALL
          SELECT format('prepared transaction %s', p.gid), p.prepared, p.transaction, p.database
          FROM pg_prepared_xacts p) h (who, since, xid, database)  -- of any database: they have one row of ids
    WHERE h.xid IS NOT NULL AND v_rollup.source_chronotable_id IS NOT NULL ORDER BY h.since;
    IF v_rollup.last_refreshed_at + v_rollup.refresh_lag > clock_timestamp() THEN
        RETURN QUERY
        SELECT 'lag', 'a refresh before then does nothing', v_rollup.last_refreshed_at, NULL::timestamptz,
               v_rollup.last_refreshed_at + v_rollup.refresh_lag, NULL::bigint, NULL::bigint;
    END IF;
    IF NOT v_rollup.tracked THEN
        RETURN QUERY
        SELECT 'untracked', 'writes to the past go unnoticed: lakets.enable_rollup_invalidation changes that', NULL::timestamptz,
               NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint;
    END IF;
END
$$;

COMMENT ON FUNCTION lakets.explain_rollup(text) IS
    'What the next refresh of a RollUp has to do, why and since when, and what holds its watermark.';
