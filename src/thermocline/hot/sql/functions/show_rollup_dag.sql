-- The RollUps in the order in which they are refreshed.
CREATE OR REPLACE FUNCTION lakets.show_rollup_dag() RETURNS TABLE (
    rollup_name      text,
    depends_on_names text[],
    refresh_order    int,
    bucket_interval  interval,
    last_refreshed   timestamptz
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT g.name, (SELECT coalesce(array_agg(d.name ORDER BY d.name), '{}') FROM lakets._rollup_registry d
                    WHERE d.id = ANY (g.depends_on)),
           o.n::int, g.bucket_interval, g.last_refreshed_at
    FROM unnest(lakets._build_rollup_dag()) WITH ORDINALITY o (id, n) JOIN lakets._rollup_registry g ON g.id = o.id
    ORDER BY o.n
$$;

COMMENT ON FUNCTION lakets.show_rollup_dag() IS 'RollUps and what they depend on, in the order of their refresh.';
