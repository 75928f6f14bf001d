-- The columns of a table as its mirror has them: the same numbers and names, and for a domain the type that it is made of, as the stream shows
-- domains, so that nothing of theirs is ever run with our rights. Generated columns are plain ones there, and are there where the table's
-- own would stream: stored ones, from PostgreSQL 18 on. value is the column of the table in that type; hashed are those that tell rows of one
-- time apart, the first three of a type that keys have.
CREATE OR REPLACE FUNCTION thermocline._mirror_columns(p_table oid)
RETURNS TABLE (number int, name text, type text, collated text, value text, hashed boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE bases AS (
        SELECT a.attnum, a.atttypid AS type, a.atttypmod AS typmod
        FROM pg_attribute a WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped
          AND (a.attgenerated = '' OR (a.attgenerated = 's' AND current_setting('server_version_num')::int >= 180000))
        UNION ALL
        SELECT b.attnum, t.typbasetype, -1 FROM bases b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
    ), known AS (
        SELECT a.attnum, a.attname, a.atttypid, a.attcollation, b.type, format_type(b.type, b.typmod) AS spelled,
               b.type = ANY ('{int2, int4, int8, text, varchar, uuid, oid, name, bool}'::regtype[]::oid[]) AS of_keys
        FROM pg_attribute a JOIN bases b ON b.attnum = a.attnum JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
        WHERE a.attrelid = p_table
    )
    SELECT k.attnum::int, k.attname::text, k.spelled,
           coalesce((SELECT format(' COLLATE %I.%I', n.nspname, l.collname)
                     FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = k.attcollation), ''),
           CASE WHEN k.type = k.atttypid THEN quote_ident(k.attname) ELSE format('%I::%s', k.attname, k.spelled) END,
           k.of_keys AND count(*) FILTER (WHERE k.of_keys) OVER (ORDER BY k.attnum) <= 3
    FROM known k
    ORDER BY k.attnum
$$;

COMMENT ON FUNCTION thermocline._mirror_columns(oid) IS 'The columns of a table as its mirror has them.';
