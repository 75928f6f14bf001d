-- The columns of a chunk with all that its rows do not show when it changes: values of columns added later, labels of enums,
-- expressions of generated columns. Receipts keep it, so its form may not change.
CREATE OR REPLACE FUNCTION thermocline._chunk_columns(p_chunk oid) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
SET bytea_output = 'hex'
SET extra_float_digits = 1
AS $$
    SELECT jsonb_agg(jsonb_build_object(
               'attnum', a.attnum, 'name', a.attname, 'type', a.atttypid::regtype::text, 'typmod', a.atttypmod,
               'collation', nullif(a.attcollation, 0)::regcollation::text, 'missing', a.attmissingval::text,
               'generated', pg_get_expr(d.adbin, d.adrelid), 'labels', l.labels) ORDER BY a.attnum)
    FROM pg_attribute a
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated <> ''
    LEFT JOIN LATERAL (
        WITH RECURSIVE parts (type) AS (  -- an enum may be the element of an array, the base of a domain or the bound of a range
            SELECT a.atttypid
            UNION
            SELECT u.part
            FROM parts p
            JOIN pg_type t ON t.oid = p.type
            LEFT JOIN pg_range r ON r.rngtypid = t.oid OR r.rngmultitypid = t.oid,
                 unnest(ARRAY[t.typelem, t.typbasetype, r.rngsubtype]) u (part)
            WHERE u.part <> 0
        )
        SELECT jsonb_agg(e.enumlabel ORDER BY e.enumtypid, e.enumsortorder) AS labels
        FROM parts p JOIN pg_enum e ON e.enumtypid = p.type
    ) l ON true
    WHERE a.attrelid = p_chunk AND a.attnum > 0 AND NOT a.attisdropped
$$;

COMMENT ON FUNCTION thermocline._chunk_columns(oid) IS 'A description of a chunk''s columns that changes when their values may have.';
