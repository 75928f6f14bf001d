-- Fills a RollUp that is empty. What the query sees and what it has seen are of one snapshot: it is one statement. Buckets that have
-- lost rows already are left out and noted as incomplete; nothing is shown of them, also from above the watermark.
CREATE OR REPLACE FUNCTION lakets._materialise(p_rollup_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET jit = off
AS $$
DECLARE
    v_rollup   lakets._rollup_registry;
    v_frontier timestamptz := thermocline._frontier(p_rollup_id);
    v_seen     pg_snapshot;
    v_newest   timestamptz;
    v_whole    timestamptz := thermocline._whole_until(p_rollup_id, v_frontier);
    v_lost     tstzmultirange := thermocline._frozen_buckets(p_rollup_id);
    v_rows     text := 'SELECT * FROM %s';
BEGIN
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = p_rollup_id;
    IF NOT isempty(v_lost) THEN
        v_rows := format('SELECT * FROM %%s x WHERE NOT x.%s::timestamptz <@ %L::tstzmultirange',
                         replace(quote_ident(v_rollup.source_time_column), '%', '%%'), v_lost);
    END IF;
    EXECUTE format(
        'WITH made AS (INSERT INTO %s %s RETURNING %I::timestamptz AS b)'
        ' SELECT pg_current_snapshot(), max(b) FILTER (WHERE b <= now()) FROM made',
        v_rollup.rollup_oid::regclass, thermocline._rollup_query(p_rollup_id, v_rows), v_rollup.bucket_column)
    INTO v_seen, v_newest;
    UPDATE lakets._rollup_registry
    SET seen = thermocline._without_mine(v_seen), frontier_at = now(), frontier_xid = pg_current_xact_id(),
        watermark = greatest(least(v_newest, v_whole), upper(v_lost)), complete_until = v_whole, incomplete = v_lost
    WHERE id = p_rollup_id;
END
$$;

COMMENT ON FUNCTION lakets._materialise(int) IS 'Fills a RollUp for the first time.';
