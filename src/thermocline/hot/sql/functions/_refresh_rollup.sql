-- Brings a RollUp up to date: the buckets that were marked since, and everything from one bucket before its watermark on. False when
-- its last refresh is younger than its refresh_lag, or somebody else is at it. What is committed meanwhile stays marked. Buckets
-- whose rows have left PostgreSQL stay as they are; those that were incomplete and have all of their rows back are whole from then on.
CREATE OR REPLACE FUNCTION lakets._refresh_rollup(p_id int, p_within_lag boolean) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    v_before   pg_snapshot := pg_current_snapshot();
    v_rollup   lakets._rollup_registry;
    v_frontier timestamptz;
    v_chunks   bigint[];
    v_seen     pg_snapshot;
    v_keys     jsonb[];
    v_ranges   tstzmultirange;
    v_last     timestamptz;
    v_tail     timestamptz;
    v_newest   timestamptz;
    v_whole    timestamptz;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('thermocline rollup ' || p_id, 0)) THEN
        RETURN false;
    END IF;
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_id;
    PERFORM thermocline._require_rollup_table(v_rollup);
    -- A refresh of what it is made from marks by the watermark that it sees: neither may move under the other.
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended('thermocline rollup ' || v_rollup.source_rollup_id, 0)) THEN
        RETURN false;
    END IF;
    IF NOT p_within_lag AND v_rollup.last_refreshed_at + v_rollup.refresh_lag > clock_timestamp() THEN
        RETURN false;
    END IF;
    IF pg_snapshot_xmin(v_rollup.seen) = v_rollup.frontier_xid AND pg_snapshot_xmin(v_before) = pg_snapshot_xmax(v_before)
       AND pg_snapshot_xmax(v_before)::text::numeric = v_rollup.frontier_xid::text::numeric + 1
       AND v_rollup.last_refreshed_at IS NOT NULL AND NOT EXISTS (SELECT FROM thermocline._marks(v_rollup)) THEN
        RETURN true;  -- nobody has written anything to this database since, not even its registry
    END IF;

    v_frontier := thermocline._frontier(v_rollup);
    v_chunks := thermocline._note_chunks(v_rollup);
    v_seen := thermocline._without_mine(pg_current_snapshot());
    -- Later than what was seen: a mark that came in between is seen to now and once more the next time.
    SELECT array_agg(jsonb_build_object('thermocline_from', p.bucket, 'thermocline_to', p.bucket_end) || p.keys)
               FILTER (WHERE p.keys IS NOT NULL),
           coalesce(range_agg(tstzrange(p.bucket, p.bucket_end)) FILTER (WHERE p.keys IS NULL), '{}')
    INTO v_keys, v_ranges
    FROM lakets._rollup_pending(p_id) p;
    v_last := v_rollup.watermark - v_rollup.bucket_interval / 2;
    SELECT min(b.bucket) FILTER (WHERE b.t = v_last), coalesce(min(b.bucket) FILTER (WHERE b.t = v_frontier), '-infinity')
    INTO v_tail, v_whole
    FROM thermocline._buckets_of_rollup(v_rollup, ARRAY(SELECT t FROM unnest(ARRAY[v_last, v_frontier]) t WHERE isfinite(t))) b;
    v_ranges := (v_ranges + v_rollup.incomplete + tstzmultirange(tstzrange(v_tail, NULL))) - thermocline._frozen_buckets(v_rollup);
    BEGIN
        -- Only looked at, not done: a block that catches errors and writes takes an id of its own, and the next refresh could not
        -- tell it from somebody else's.
        PERFORM attname FROM pg_attribute WHERE attrelid = v_rollup.source_oid AND attname = v_rollup.source_time_column;
        IF NOT FOUND THEN
            RAISE no_data_found;
        END IF;
        EXECUTE 'EXPLAIN ' || thermocline._rollup_query(v_rollup, 'SELECT * FROM %s WHERE false');
    EXCEPTION
        WHEN no_data_found OR undefined_column OR undefined_table OR undefined_function OR datatype_mismatch THEN
            RAISE EXCEPTION 'cannot refresh the RollUp %: its source is no longer as its query has it (%)', v_rollup.name,
                CASE WHEN SQLSTATE = 'P0002' THEN format('%s has no column %s', v_rollup.source_oid::regclass,
                                                         quote_ident(v_rollup.source_time_column)) ELSE SQLERRM END
                USING HINT = format('Rename the column back, or SELECT lakets.drop_rollup(%L) and make it anew. Its buckets whose rows have'
                                    ' left PostgreSQL are lost then.', v_rollup.name);
    END;
    IF v_keys IS NOT NULL THEN
        PERFORM thermocline._recompute_keys(v_rollup, v_keys);
    END IF;
    PERFORM thermocline._recompute_ranges(v_rollup, (SELECT array_agg(r ORDER BY r) FROM unnest(v_ranges) r));
    EXECUTE format('SELECT max(%1$I) FROM %2$s WHERE %1$I <= now()', v_rollup.bucket_column, v_rollup.rollup_oid::regclass)
        INTO v_newest;
    PERFORM thermocline._mark_dependents(p_id, v_ranges + coalesce(
        (SELECT range_agg(tstzrange((k ->> 'thermocline_from')::timestamptz, (k ->> 'thermocline_to')::timestamptz))
         FROM unnest(v_keys) k), '{}'), v_newest);
    UPDATE lakets._rollup_registry SET
        seen = v_seen,
        chunks = v_chunks,
        written = thermocline._written(source_oid),
        watermark = greatest(watermark, least(v_newest, v_whole)),
        complete_until = greatest(complete_until, v_whole),
        incomplete = incomplete - v_ranges * v_rollup.incomplete,
        last_refreshed_at = clock_timestamp(),
        -- An older note is kept until it has served: with writers always open, a newer one never would.
        frontier_at = CASE WHEN pg_snapshot_xmin(v_before) >= frontier_xid OR frontier_xid IS NULL THEN now() ELSE frontier_at END,
        frontier_xid = CASE WHEN pg_snapshot_xmin(v_before) >= frontier_xid OR frontier_xid IS NULL
                            THEN pg_current_xact_id() ELSE frontier_xid END
    WHERE id = p_id;
    PERFORM thermocline._keep_for_recompute(v_rollup);
    PERFORM thermocline._forget_marks(v_rollup, v_seen);
    IF v_chunks <> v_rollup.chunks THEN  -- its own marks of what was attached, which it has seen to
        DELETE FROM lakets._rollup_invalidation_log
        WHERE rollup_id = p_id AND reason = 'chunk_changed' AND xid = pg_current_xact_id();
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION lakets._refresh_rollup(int, boolean) IS
    'Brings a RollUp up to date, also within its refresh_lag if asked to; false when it did not.';
