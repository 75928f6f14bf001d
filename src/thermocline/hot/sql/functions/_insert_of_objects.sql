-- The statement that inserts the objects of a JSON array, its parameter, into columns of a table, and which of the names are no columns.
-- Every name in it means the same under any search_path. Types are without length and precision, which the INSERT sees to.
CREATE OR REPLACE FUNCTION lakets._insert_of_objects(p_table oid, p_names text[], OUT statement text, OUT unknown text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
    SELECT format('INSERT INTO %s (%s) SELECT %2$s FROM pg_catalog.jsonb_to_recordset($1) AS r (%s)', p_table::regclass,
                  string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
                  string_agg(format('%I %s.%I', a.attname, t.typnamespace::regnamespace, t.typname), ', ' ORDER BY a.attnum)
                      FILTER (WHERE a.attnum IS NOT NULL)),
           string_agg(quote_ident(n.name), ', ' ORDER BY n.name) FILTER (WHERE a.attnum IS NULL)
    FROM unnest(p_names) n (name)
    LEFT JOIN pg_attribute a ON a.attrelid = p_table AND a.attname = n.name AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_type t ON t.oid = a.atttypid
$$;

COMMENT ON FUNCTION lakets._insert_of_objects(oid, text[]) IS
    'The statement that inserts the objects of a JSON array into these columns of a table, and which of them there are not.';
