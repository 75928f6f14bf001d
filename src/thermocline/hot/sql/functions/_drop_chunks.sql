-- Drops the chunks of a table that end by p_until, oldest first, in the transaction of whoever calls. It claims as many as
-- one call may drop, then takes the table's lock, which is therefore held for the drops alone, then drops. What is refused
-- or busy stays, with a notice; one chunk's failure is a warning and does not stop the others. A chunk whose table is not
-- there any more is taken note of when nothing has to be proven. Nothing goes, not even by force, while drops are paused; a pause
-- that begins meanwhile keeps what is left.
CREATE OR REPLACE FUNCTION thermocline._drop_chunks(
    p_chronotable_id int,
    p_until          timestamptz,
    p_gated          boolean,
    p_forced         boolean,
    p_reason         text
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_later    constant text := 'Call again later, or run `thermocline retention`, which goes chunk by chunk.';
    c_remove   constant text := 'Remove what is in the way, then call again.';
    v_most     int := thermocline._most_drops();
    v_table    oid;
    v_chunk    record;
    v_claimed  oid[]   := '{}';
    v_evidence jsonb[] := '{}';
    v_refused  jsonb   := '{}';
    v_dropped  int     := 0;
    v_code     text;
    v_hint     text;
    v_pause    record;
BEGIN
    SELECT * INTO v_pause FROM thermocline._drop_pause();
    IF v_pause.message IS NOT NULL THEN
        RAISE EXCEPTION '%', v_pause.message USING HINT = v_pause.hint;
    END IF;
    SELECT table_oid INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id;
    IF NOT p_forced THEN
        PERFORM lakets._refresh_before_drop(p_chronotable_id, p_until);
    END IF;
    BEGIN
        FOR v_chunk IN
            SELECT m.id, m.chunk_oid, m.chunk_name, c.oid IS NULL AS gone, coalesce(m.kept_until > clock_timestamp(), false) AS kept,
                   (SELECT string_agg(b.name, ', ')
                    FROM thermocline._rollups_behind(p_chronotable_id, m.range_start, m.range_end) b) AS needed_by
            FROM lakets._chunk_metadata m LEFT JOIN pg_class c ON c.oid = m.chunk_oid
            WHERE m.chronotable_id = p_chronotable_id AND m.status <> 'dropped' AND m.range_end <= p_until
              AND NOT EXISTS (SELECT FROM thermocline.detaching d WHERE d.chunk_oid = m.chunk_oid)  -- the worker is at it
            ORDER BY m.range_start
        LOOP
            IF cardinality(v_claimed) + v_dropped >= v_most THEN
                RAISE NOTICE 'more chunks of % are due; one call drops % at most', v_table::regclass, v_most
                    USING HINT = 'Call again, run `thermocline retention`, or SET lakets.max_drops_per_call.';
                EXIT;
            END IF;
            IF v_chunk.kept AND NOT v_chunk.gone THEN  -- by force neither: somebody has asked for it to stay
                RAISE NOTICE '% stays: it was brought back from the lake and is kept', v_chunk.chunk_name
                    USING DETAIL = 'kept', HINT = 'It goes when its time is over, or after SELECT lakets.release(...).';
                CONTINUE;
            END IF;
            IF v_chunk.needed_by IS NOT NULL AND NOT p_forced AND NOT v_chunk.gone AND NOT p_gated THEN
                RAISE NOTICE '% stays: RollUps still need its rows: %', v_chunk.chunk_name, v_chunk.needed_by
                    USING DETAIL = 'rollup_behind', HINT = 'They are refreshed at every call. Buckets that are wider than the chunk have to'
                                                           ' be over, and writers that were open have to have ended.';
                CONTINUE;
            END IF;
            BEGIN
                IF v_chunk.gone AND NOT p_gated THEN
                    PERFORM thermocline._record_drop(v_chunk.id, '{"gone": true}', NULL, p_forced, p_reason);
                    v_dropped := v_dropped + 1;
                ELSE
                    v_evidence := array_append(v_evidence, thermocline._claim_chunk(v_chunk.chunk_oid, NULL, p_gated));
                    v_claimed  := array_append(v_claimed, v_chunk.chunk_oid);
                END IF;
            EXCEPTION
                WHEN lock_not_available THEN
                    RAISE NOTICE '% is in use, its drop is deferred', v_chunk.chunk_name USING HINT = c_later;
                WHEN raise_exception THEN
                    GET STACKED DIAGNOSTICS v_code = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
                    RAISE NOTICE '%', SQLERRM USING DETAIL = v_code, HINT = v_hint;
                    v_refused := v_refused || jsonb_build_object(v_chunk.chunk_oid, v_code);
                WHEN OTHERS THEN
                    GET STACKED DIAGNOSTICS v_code = PG_EXCEPTION_DETAIL;
                    RAISE WARNING '% could not be dropped: %', v_chunk.chunk_name, SQLERRM
                        USING DETAIL = v_code, HINT = c_remove;
            END;
        END LOOP;

        IF cardinality(v_claimed) > 0 THEN
            PERFORM thermocline._lock(v_table, 'ACCESS EXCLUSIVE');
        END IF;
        FOR v_chunk IN
            SELECT c.oid, c.oid::regclass::text AS name, c.evidence FROM unnest(v_claimed, v_evidence) c (oid, evidence)
        LOOP
            SELECT * INTO v_pause FROM thermocline._drop_pause();
            IF v_pause.message IS NOT NULL THEN
                RAISE NOTICE '%', v_pause.message USING HINT = v_pause.hint;
                EXIT;
            END IF;
            BEGIN
                PERFORM thermocline._remove_chunk(v_chunk.oid, v_chunk.evidence, p_forced, p_reason);
                v_dropped := v_dropped + 1;
            EXCEPTION
                WHEN lock_not_available THEN
                    RAISE NOTICE '% is in use, its drop is deferred', v_chunk.name USING HINT = c_later;
                WHEN raise_exception THEN
                    GET STACKED DIAGNOSTICS v_code = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
                    RAISE WARNING '%', SQLERRM USING DETAIL = v_code, HINT = v_hint;
                WHEN OTHERS THEN
                    GET STACKED DIAGNOSTICS v_code = PG_EXCEPTION_DETAIL;
                    RAISE WARNING '% could not be dropped: %', v_chunk.name, SQLERRM
                        USING DETAIL = v_code, HINT = c_remove;
            END;
        END LOOP;
        PERFORM thermocline._set_traps(p_chronotable_id, cardinality(v_claimed) > 0) WHERE v_dropped > 0;
    EXCEPTION
        WHEN lock_not_available THEN
            RAISE NOTICE '% is in use, the drop of % chunks is deferred', v_table::regclass, cardinality(v_claimed)
                USING HINT = c_later;
            v_dropped := 0;
    END;
    PERFORM thermocline._back_under_gate(r.key::oid, r.value) FROM jsonb_each_text(v_refused) r;
    RETURN v_dropped;
END
$$;

COMMENT ON FUNCTION thermocline._drop_chunks(int, timestamptz, boolean, boolean, text) IS
    'Drops the due chunks of a table as far as nothing speaks against it; returns how many.';
