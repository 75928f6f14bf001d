-- Where buckets of a RollUp end: the start of the next one. Most are as long as they say. Months, and buckets by the clock of a zone, may be
-- longer or shorter, so from a later bucket it is stepped back, bucket by bucket, to the one that follows.
CREATE OR REPLACE FUNCTION thermocline._bucket_ends(p_rollup lakets._rollup_registry, p_buckets timestamptz[])
RETURNS TABLE (bucket timestamptz, bucket_end timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_step   interval;
    v_starts timestamptz[] := ARRAY(SELECT DISTINCT b FROM unnest(p_buckets) b WHERE b IS NOT NULL);
    v_ends   timestamptz[];
    v_before timestamptz[];
BEGIN
    v_step := thermocline._regular_step(p_rollup.bucket_expression);
    IF v_step IS NOT NULL THEN
        RETURN QUERY SELECT b, b + v_step FROM unnest(v_starts) b;
        RETURN;
    END IF;
    SELECT array_agg(n.bucket ORDER BY s.at) INTO v_ends
    FROM unnest(v_starts) WITH ORDINALITY s (start, at)
    JOIN (SELECT DISTINCT x.t, x.bucket
          FROM thermocline._buckets_of_rollup(
                   p_rollup, ARRAY(SELECT b + p_rollup.bucket_interval * 1.5 FROM unnest(v_starts) b)) x) n
      ON n.t = s.start + p_rollup.bucket_interval * 1.5;
    LOOP
        SELECT array_agg(n.bucket ORDER BY e.at) INTO v_before
        FROM unnest(v_ends) WITH ORDINALITY e (after, at)
        JOIN (SELECT DISTINCT x.t, x.bucket
              FROM thermocline._buckets_of_rollup(p_rollup, ARRAY(SELECT e - interval '1 microsecond' FROM unnest(v_ends) e)) x) n
          ON n.t = e.after - interval '1 microsecond';
        EXIT WHEN NOT EXISTS (SELECT FROM unnest(v_starts, v_before) x (start, before) WHERE x.before > x.start);
        v_ends := ARRAY(SELECT CASE WHEN x.before > x.start THEN x.before ELSE x.after END
                        FROM unnest(v_starts, v_ends, v_before) WITH ORDINALITY x (start, after, before, at) ORDER BY x.at);
    END LOOP;
    RETURN QUERY SELECT x.start, x.after FROM unnest(v_starts, v_ends) x (start, after);
END
$$;

COMMENT ON FUNCTION thermocline._bucket_ends(lakets._rollup_registry, timestamptz[]) IS 'Where buckets of a RollUp end.';
