-- Makes a ChronoTable for metrics: a time, tags that name a series, and fields that were measured.
CREATE OR REPLACE FUNCTION lakets.create_metric_table(
    p_table_name     text,
    p_tag_columns    text[],
    p_field_columns  text[],
    p_chunk_interval interval DEFAULT '1 day',
    p_schema_name    text     DEFAULT 'public'
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_columns text[] := ARRAY['time'] || p_tag_columns || p_field_columns;
    v_bad     text;
    v_id      int;
BEGIN
    IF p_table_name IS NULL OR p_schema_name IS NULL OR p_tag_columns IS NULL OR p_field_columns IS NULL
       OR p_chunk_interval IS NULL THEN
        RAISE EXCEPTION 'cannot make the metric table %: an argument is NULL', coalesce(quote_ident(p_table_name), 'NULL')
            USING HINT = 'Give the name, the tags, the fields, the chunk interval and the schema; ''{}'' stands for no tags.';
    END IF;
    IF octet_length(p_table_name) NOT BETWEEN 1 AND 63 THEN
        RAISE EXCEPTION 'cannot make the metric table %: the name has % bytes', quote_ident(p_table_name),
            octet_length(p_table_name) USING HINT = 'A name has from 1 to 63 bytes.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = p_schema_name) THEN
        RAISE EXCEPTION 'cannot make the metric table %: there is no schema %', quote_ident(p_table_name),
            quote_ident(p_schema_name) USING HINT = format('CREATE SCHEMA %I makes it.', p_schema_name);
    END IF;
    IF to_regclass(format('%I.%I', p_schema_name, p_table_name)) IS NOT NULL THEN
        RAISE EXCEPTION 'cannot make the metric table %.%: it is there already', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'Choose another name; lakets.create_chronotable turns an existing table.';
    END IF;
    IF cardinality(p_field_columns) = 0 THEN
        RAISE EXCEPTION 'cannot make the metric table %.%: it has no field', quote_ident(p_schema_name),
            quote_ident(p_table_name) USING HINT = 'Name at least one column that is measured.';
    END IF;
    SELECT string_agg(what, '; ' ORDER BY what) INTO v_bad
    FROM (
        SELECT CASE WHEN name IS NULL THEN 'a column name is NULL'
                    WHEN octet_length(name) NOT BETWEEN 1 AND 63 THEN format('the column name %I has %s bytes', name,
                                                                              octet_length(name))
                    WHEN count(*) > 1 THEN format('the column %I is there twice', name) END AS what
        FROM unnest(v_columns) name GROUP BY name ORDER BY name
    ) found;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION 'cannot make the metric table %.%: %', quote_ident(p_schema_name), quote_ident(p_table_name), v_bad
            USING HINT = 'Each column needs a name of its own of 1 to 63 bytes; "time" is the time''s.';
    END IF;

    EXECUTE format(
        'CREATE TABLE %I.%I ("time" timestamptz NOT NULL%s%s)', p_schema_name, p_table_name,
        (SELECT string_agg(format(', %I text NOT NULL', t), '' ORDER BY n) FROM unnest(p_tag_columns) WITH ORDINALITY u(t, n)),
        (SELECT string_agg(format(', %I float8', f), '' ORDER BY n) FROM unnest(p_field_columns) WITH ORDINALITY u(f, n)));
    v_id := lakets.create_chronotable(p_table_name, 'time', p_chunk_interval, p_schema_name);
    IF cardinality(p_tag_columns) > 0 THEN  -- without tags it would be the index on the time once more
        EXECUTE format(
            'CREATE INDEX %I ON %I.%I (%s, "time" DESC)', lakets._short_name('idx_', p_table_name, '_series'),
            p_schema_name, p_table_name,
            (SELECT string_agg(quote_ident(t), ', ' ORDER BY n) FROM unnest(p_tag_columns) WITH ORDINALITY u(t, n)));
    END IF;
    EXECUTE format('CREATE INDEX %I ON %I.%I USING brin ("time")', lakets._short_name('idx_', p_table_name, '_brin'),
                   p_schema_name, p_table_name);
    RETURN v_id;
END
$$;

COMMENT ON FUNCTION lakets.create_metric_table(text, text[], text[], interval, text) IS
    'Makes a ChronoTable of a time, tags of text and fields of float8, with indexes by series and by time; returns its id.';
