-- Takes a view's one query apart, as PostgreSQL prints it: what it selects, the one thing it selects from, and the text with
-- /*source*/ in its place. An ORDER BY at the top is left out: a table has no order, and a part of UNION ALL cannot have one. Strings, quoted names and brackets are stepped over, so what stands at the top is known to.
CREATE OR REPLACE FUNCTION thermocline._query_parts(
    p_view     oid,
    OUT items    text[],
    OUT source   text,
    OUT template text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET intervalstyle = 'postgres'
AS $$
DECLARE
    v_text  text := rtrim(pg_get_viewdef(p_view, false), E'; \n');
    v_token text;
    v_depth int  := 0;
    v_part  text := 'before';
    v_item  text := '';
BEGIN
    items := '{}';
    source := '';
    template := '';
    FOR v_token IN
        SELECT m[1] FROM regexp_matches(
            v_text, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*"|[[:alnum:]_$]+|\s+|.)', 'g') m
    LOOP
        v_depth := v_depth + CASE v_token WHEN '(' THEN 1 WHEN '[' THEN 1 WHEN ')' THEN -1 WHEN ']' THEN -1 ELSE 0 END;
        IF v_depth = 0 AND v_part = 'before' AND v_token = 'SELECT' THEN
            v_part := 'items';
        ELSIF v_depth = 0 AND v_part = 'items' AND v_token IN (',', 'FROM') THEN
            items := array_append(items, regexp_replace(trim(E' \n' FROM v_item), '\sAS\s+("(?:[^"]|"")*"|[[:alnum:]_$]+)$', ''));
            v_item := '';
            IF v_token = 'FROM' THEN
                v_part := 'source';
                template := template || 'FROM /*source*/';
                CONTINUE;
            END IF;
        ELSIF v_depth = 0 AND v_part = 'source' AND v_token IN ('WHERE', 'GROUP', 'HAVING', 'ORDER', 'LIMIT') THEN
            v_part := 'after';
            template := template || E'\n ';
        ELSIF v_part = 'items' THEN
            v_item := v_item || v_token;
        ELSIF v_part = 'source' THEN
            source := source || v_token;
            CONTINUE;
        END IF;
        EXIT WHEN v_depth = 0 AND v_part IN ('source', 'after') AND v_token = 'ORDER';
        template := template || v_token;
    END LOOP;
    source := trim(E' \n' FROM source);
END
$$;

COMMENT ON FUNCTION thermocline._query_parts(oid) IS 'The parts of a view''s query.';
