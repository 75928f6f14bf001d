-- Extended statistics of a table beside those of one that was made of it by LIKE, which names them anew: by what they are of, and those of the
-- same in the order in which they were made.
CREATE OR REPLACE FUNCTION thermocline._statistics_alike(p_from oid, p_to oid) RETURNS TABLE (from_oid oid, to_oid oid)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH known AS (
        SELECT s.oid, s.stxrelid, k.kinds, k.columns,
               row_number() OVER (PARTITION BY s.stxrelid, k.kinds, k.columns ORDER BY s.oid) AS n
        FROM pg_statistic_ext s,
             LATERAL (SELECT s.stxkind::text AS kinds, pg_get_statisticsobjdef_columns(s.oid) AS columns) k
        WHERE s.stxrelid IN (p_from, p_to)
    )
    SELECT a.oid, b.oid FROM known a JOIN known b USING (kinds, columns, n) WHERE a.stxrelid = p_from AND b.stxrelid = p_to
$$;

COMMENT ON FUNCTION thermocline._statistics_alike(oid, oid) IS
    'Pairs of extended statistics of a table and of one that was made of it by LIKE.';
