-- From where to where buckets of a RollUp may have changed since they were computed, with some to spare; empty if none has. The
-- real-time view reads nothing of its source outside of it. Readers of the view need no right on what this looks at.
CREATE OR REPLACE FUNCTION lakets._rollup_pending_span(p_rollup_id int) RETURNS tstzrange
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
BEGIN
    RETURN coalesce((SELECT tstzrange(min(m.first_time) - 2 * g.bucket_interval,
                                      least(max(m.last_time), g.watermark) + 2 * g.bucket_interval)
                     FROM lakets._rollup_registry g, thermocline._marks(g) m
                     WHERE g.id = p_rollup_id AND m.first_time < g.watermark
                     GROUP BY g.id), 'empty');
END
$$;

COMMENT ON FUNCTION lakets._rollup_pending_span(int) IS
    'From where to where buckets of a RollUp may have changed since they were computed.';
