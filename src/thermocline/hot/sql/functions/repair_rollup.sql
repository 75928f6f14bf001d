-- Computes the buckets anew in which a RollUp differs from a full aggregation of its source. Returns how many there were.
CREATE OR REPLACE FUNCTION lakets.repair_rollup(p_name text, p_from timestamptz DEFAULT NULL, p_to timestamptz DEFAULT NULL)
RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id     int := thermocline._own_rollup_id(p_name);
    v_rollup lakets._rollup_registry;
    v_wrong  timestamptz[];
    v_ranges tstzmultirange;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('thermocline rollup ' || v_id, 0));
    SELECT * INTO STRICT v_rollup FROM lakets._rollup_registry WHERE id = v_id;
    SELECT array_agg(DISTINCT b.bucket) INTO v_wrong
    FROM (SELECT DISTINCT c.bucket FROM lakets.check_rollup(p_name, p_from, p_to) c) d,
         thermocline._buckets_of_rollup(v_rollup, ARRAY[d.bucket]) b;
    IF v_wrong IS NULL THEN
        RETURN 0;
    END IF;
    v_ranges := thermocline._buckets_over(
        v_rollup, (SELECT range_agg(tstzrange(w, w + interval '1 microsecond')) FROM unnest(v_wrong) w));
    PERFORM thermocline._recompute_ranges(v_rollup, (SELECT array_agg(r) FROM unnest(v_ranges) r));
    PERFORM thermocline._mark_dependents(v_id, v_ranges, NULL);
    RETURN cardinality(v_wrong);
END
$$;

COMMENT ON FUNCTION lakets.repair_rollup(text, timestamptz, timestamptz) IS
    'Computes the buckets anew in which a RollUp differs from its source; returns how many.';
