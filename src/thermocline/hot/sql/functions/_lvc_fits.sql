-- Whether a last-value cache is still as it was made: a plain table without code of anybody's, whose columns have the types of the
-- table's. The cache is kept with its maker's rights, so nothing else may be let run.
CREATE OR REPLACE FUNCTION thermocline._lvc_fits(p_cache_id int) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(bool_and(c.relkind = 'r' AND NOT c.relhastriggers AND NOT c.relhasrules AND c.relchecks = 0
                             AND NOT c.relrowsecurity AND NOT c.relispartition AND NOT c.relhassubclass
                             AND a.atttypid IS NOT DISTINCT FROM s.atttypid AND a.attgenerated = '' AND NOT a.atthasdef
                             AND (t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b')
                             AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
                                             AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))), false)
    FROM lakets._lvc_registry l
    JOIN lakets._chronotable_registry r ON r.id = l.chronotable_id
    JOIN pg_class c ON c.oid = l.cache_oid
    CROSS JOIN unnest(l.key_columns || l.value_columns) u (name)
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = u.name
    LEFT JOIN pg_attribute s ON s.attrelid = r.table_oid AND s.attname = u.name AND NOT s.attisdropped
    LEFT JOIN pg_type t ON t.oid = a.atttypid
    WHERE l.id = p_cache_id
      AND EXISTS (SELECT FROM pg_attribute x WHERE x.attrelid = r.table_oid AND x.attname = r.time_column)
$$;

COMMENT ON FUNCTION thermocline._lvc_fits(int) IS 'Whether a last-value cache is still as it was made.';
