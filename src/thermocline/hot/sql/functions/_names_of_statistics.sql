-- Statements by which the extended statistics of a table's successor get the names and schemas of the table's own, to be run once that is
-- gone. By way of names that nothing else has: the ones that LIKE has chosen may be in the way of each other.
CREATE OR REPLACE FUNCTION thermocline._names_of_statistics(p_table oid, p_successor oid) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(s.statement ORDER BY s.step, t.oid), '{}')
    FROM thermocline._statistics_alike(p_table, p_successor) p
    JOIN pg_statistic_ext f ON f.oid = p.from_oid
    JOIN pg_statistic_ext t ON t.oid = p.to_oid,
         LATERAL (SELECT 'thermocline_converting_' || t.oid AS spare, f.stxnamespace::regnamespace AS its_schema) x,
         LATERAL (VALUES
             (1, format('ALTER STATISTICS %s.%I RENAME TO %I', t.stxnamespace::regnamespace, t.stxname, x.spare)),
             (2, format('ALTER STATISTICS %s.%I SET SCHEMA %s', t.stxnamespace::regnamespace, x.spare, x.its_schema)),
             (3, format('ALTER STATISTICS %s.%I RENAME TO %I', x.its_schema, x.spare, f.stxname))
         ) s (step, statement)
$$;

COMMENT ON FUNCTION thermocline._names_of_statistics(oid, oid) IS
    'Statements that name the extended statistics of a table''s successor as those of the table.';
