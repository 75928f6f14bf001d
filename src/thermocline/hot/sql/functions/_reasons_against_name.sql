-- What speaks against a RollUp before its query is looked at.
CREATE OR REPLACE FUNCTION lakets._reasons_against_name(p_name text, p_bucket_interval interval, p_depends_on text[])
RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(r.reason), '{}') FROM (
        SELECT 'it has no name' AS reason WHERE coalesce(p_name, '') = ''
        UNION ALL
        SELECT 'its name is longer than 44 bytes' WHERE octet_length(p_name) > 44
        UNION ALL
        SELECT 'there is one of this name already'
        WHERE EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.name = p_name)
        UNION ALL
        SELECT format('%s is there already', t::regclass)
        FROM unnest(ARRAY['_rollup_', '_rollup_rt_']) prefix, to_regclass(format('public.%I', prefix || coalesce(p_name, ''))) t
        WHERE t IS NOT NULL AND NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.name = p_name)
        UNION ALL
        SELECT 'its bucket_interval is not positive'
        WHERE p_bucket_interval IS NULL OR timestamptz '2000-01-01' + p_bucket_interval <= timestamptz '2000-01-01'
        UNION ALL
        SELECT 'its bucket_interval has months and days or hours: it is the one or the other'
        WHERE extract(month FROM p_bucket_interval) + 12 * extract(year FROM p_bucket_interval) <> 0
          AND p_bucket_interval <> make_interval(
                  months => (extract(month FROM p_bucket_interval) + 12 * extract(year FROM p_bucket_interval))::int)
        UNION ALL
        SELECT format('it cannot depend on itself') WHERE p_name = ANY (p_depends_on)
        UNION ALL
        SELECT format('it depends on %s, which does not exist', coalesce(quote_ident(d), 'NULL')) FROM unnest(p_depends_on) d
        WHERE d IS DISTINCT FROM p_name AND NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.name = d)
    ) r
$$;

COMMENT ON FUNCTION lakets._reasons_against_name(text, interval, text[]) IS
    'What speaks against the name, the interval and the dependencies of a RollUp; empty when nothing does.';
