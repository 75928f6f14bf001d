-- The statements that keep a mirror, made for one table: its names stand in them, its values never do.
-- put: rows that came go into the mirror. take: for each row that went, one that is the same to the bit is taken out; the answer says how
-- many were not found, and between which times. Rows of one image are counted, and as many are taken as went: each session
-- takes others, because it passes by what is locked, and waits for nobody. fill: the rows of a chunk go in. mend: the mirror of a chunk
-- becomes what the chunk is; the answer says how many rows were put in or taken out for that. index: how rows are found.
-- Two rows are the same if their images are, by *=: that is right for json, for 0 and -0, 1.0 and 1.000, NULL and NaN.
CREATE OR REPLACE FUNCTION thermocline._mirror_statement(
    p_what   text,
    p_table  oid,
    p_time   text,
    p_shadow oid,
    p_chunk  oid  DEFAULT NULL,
    p_within text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_twins constant text := 'PARTITION BY o.time, o.hash ORDER BY o.image USING OPERATOR(pg_catalog.*<)';
    c_same  constant text := 't.time = h.time AND t.hash = h.hash AND t.n = h.n AND t.image OPERATOR(pg_catalog.*=) h.image';
    v_names  text;
    v_values text;
    v_hash   text;
BEGIN
    SELECT string_agg(quote_ident(c.name), ', ' ORDER BY c.number), string_agg(c.value, ', ' ORDER BY c.number),
           'hash_record(ROW(' || string_agg(quote_ident(c.name), ', ' ORDER BY c.number) FILTER (WHERE c.hashed) || '))'
    INTO STRICT v_names, v_values, v_hash
    FROM thermocline._mirror_columns(p_table) c;
    IF p_what = 'index' THEN
        RETURN format('CREATE INDEX ON %s (%I%s)', p_shadow::regclass, p_time, ', (' || v_hash || ')');
    END IF;
    v_hash := coalesce((SELECT pg_get_indexdef(i.indexrelid, 2, false) FROM pg_index i
                        WHERE i.indrelid = p_shadow AND i.indnatts = 2), '0');  -- as the index has it, whatever came later
    RETURN CASE p_what
        WHEN 'put' THEN format('INSERT INTO %s (%s) SELECT %s FROM new_rows', p_shadow::regclass, v_names, v_values)
        WHEN 'fill' THEN format('INSERT INTO %s (%s) SELECT %s FROM ONLY %s', p_shadow::regclass, v_names, v_values,
                                p_chunk::regclass)
        WHEN 'take' THEN format($sql$
            WITH gone AS MATERIALIZED (
                SELECT o.*, count(*) OVER (w RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS times,
                       row_number() OVER w = rank() OVER w AS is_first
                FROM (SELECT %1$I AS time, %2$s AS hash, ROW(%3$s) AS image FROM old_rows) o WINDOW w AS (%4$s)
            ), taken AS (
                DELETE FROM %5$s WHERE ctid = ANY (ARRAY(
                    SELECT f.at FROM gone g, LATERAL (
                        SELECT s.ctid AS at FROM %5$s s
                        WHERE s.%1$I = g.time AND %2$s = g.hash AND ROW(%6$s) OPERATOR(pg_catalog.*=) g.image
                        LIMIT g.times FOR UPDATE SKIP LOCKED) f
                    WHERE g.is_first))
                RETURNING 1
            )
            SELECT count(*) - (SELECT count(*) FROM taken), min(time)::timestamptz, max(time)::timestamptz FROM gone
            $sql$, p_time, v_hash, v_values, c_twins, p_shadow::regclass, v_names)
        WHEN 'mend' THEN format($sql$
            WITH here AS MATERIALIZED (
                SELECT o.*, row_number() OVER w - rank() OVER w AS n
                FROM (SELECT ctid AS at, %1$I AS time, %2$s AS hash, ROW(%3$s) AS image FROM ONLY %7$s) o WINDOW w AS (%4$s)
            ), there AS MATERIALIZED (
                SELECT o.*, row_number() OVER w - rank() OVER w AS n
                FROM (SELECT ctid AS at, %1$I AS time, %2$s AS hash, ROW(%6$s) AS image FROM %5$s WHERE %8$s) o WINDOW w AS (%4$s)
            ), added AS (
                INSERT INTO %5$s (%6$s) SELECT %3$s FROM ONLY %7$s
                WHERE ctid = ANY (ARRAY(SELECT h.at FROM here h WHERE NOT EXISTS (SELECT FROM there t WHERE %9$s)))
                RETURNING 1
            ), removed AS (
                DELETE FROM %5$s
                WHERE ctid = ANY (ARRAY(SELECT t.at FROM there t WHERE NOT EXISTS (SELECT FROM here h WHERE %9$s)))
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM added) + (SELECT count(*) FROM removed)
            $sql$, p_time, v_hash, v_values, c_twins, p_shadow::regclass, v_names, p_chunk::regclass, p_within, c_same)
    END;
END
$$;

COMMENT ON FUNCTION thermocline._mirror_statement(text, oid, text, oid, oid, text) IS
    'One of the statements that keep the mirror of a table.';
