-- Fills a RollUp that is empty. What it has seen is noted before the query runs: a mark that comes in between is seen to now and once
-- more at the first refresh. Buckets that have lost rows already are left out and noted as incomplete; nothing is shown of
-- them, also from above the watermark.
CREATE OR REPLACE FUNCTION lakets._materialise(p_rollup_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET jit = off
AS $$
DECLARE
    v_rollup   lakets._rollup_registry;
    v_frontier timestamptz;
    v_chunks   bigint[];
    v_seen     pg_snapshot;
    v_newest   timestamptz;
    v_whole    timestamptz;
    v_lost     tstzmultirange;
    v_rows     text := 'SELECT * FROM %s';
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    v_frontier := thermocline._frontier(v_rollup);
    v_chunks := thermocline._note_chunks(v_rollup);
    v_whole := thermocline._whole_until(v_rollup, v_frontier);
    v_lost := thermocline._frozen_buckets(v_rollup);
    IF NOT isempty(v_lost) THEN
        v_rows := format('SELECT * FROM %%s x WHERE NOT x.%s::timestamptz <@ %L::tstzmultirange',
                         replace(quote_ident(v_rollup.source_time_column), '%', '%%'), v_lost);
    END IF;
    v_seen := thermocline._without_mine(pg_current_snapshot());
    EXECUTE format('INSERT INTO %s %s', v_rollup.rollup_oid::regclass, thermocline._rollup_query(v_rollup, v_rows));
    EXECUTE format('SELECT max(%1$I) FROM %2$s WHERE %1$I <= now()', v_rollup.bucket_column, v_rollup.rollup_oid::regclass)
    INTO v_newest;
    UPDATE lakets._rollup_registry
    SET seen = v_seen, chunks = v_chunks, written = thermocline._written(source_oid),
        frontier_at = now(), frontier_xid = pg_current_xact_id(),
        watermark = greatest(least(v_newest, v_whole), upper(v_lost)), complete_until = v_whole, incomplete = v_lost
    WHERE id = p_rollup_id;
END
$$;

COMMENT ON FUNCTION lakets._materialise(int) IS 'Fills a RollUp for the first time.';
