-- The statements that keep a last-value cache, made for one table: its names stand in them, its values never do. Rows are
-- read from p_source, an expression of ours. A row without one of its keys has no place in the cache.
-- latest: the newest row of each key goes in if it is newer than the cache's. lock: every key of p_source gets a row, locked.
-- again: the locked rows are filled from the table. gone: those that no row of the table stands behind are removed.
-- Keys are always taken in the same order, or two statements could wait for each other. (Two transactions of several
-- statements still can: the row of a key is locked from the statement to the end of its transaction, because only so does a
-- deleter see a writer of the same key, and it is seen by its own transaction at once.)
CREATE OR REPLACE FUNCTION lakets._lvc_statement(p_cache_id int, p_what text, p_source text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_entry  lakets._lvc_registry;
    v_table  lakets._chronotable_registry;
    v_cache  text;
    v_keys   text;
    v_values text;
    v_given  text;
    v_same   text;
    v_set    text;
    v_newest text;
BEGIN
    SELECT * INTO STRICT v_entry FROM lakets._lvc_registry WHERE id = p_cache_id;
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = v_entry.chronotable_id;
    v_cache := v_entry.cache_oid::regclass;
    SELECT string_agg(quote_ident(k), ', ' ORDER BY n), string_agg(format('r.%I IS NOT NULL', k), ' AND ' ORDER BY n),
           string_agg(format('c.%1$I = r.%1$I', k), ' AND ' ORDER BY n)
    INTO v_keys, v_given, v_same FROM unnest(v_entry.key_columns) WITH ORDINALITY u(k, n);
    SELECT coalesce(string_agg(quote_ident(v) || ', ', '' ORDER BY n), ''),
           coalesce(string_agg(format('%1$I = excluded.%1$I, ', v), '' ORDER BY n), '')
    INTO v_values, v_set FROM unnest(v_entry.value_columns) WITH ORDINALITY u(v, n);
    v_newest := format(
        'SELECT DISTINCT ON (%1$s) %1$s, %2$s%3$I::timestamptz AS last_updated FROM %4$s r WHERE %5$s ORDER BY %1$s, %3$I DESC',
        v_keys, v_values, v_table.time_column, p_source, v_given);
    RETURN CASE p_what
        WHEN 'latest' THEN format(
            'INSERT INTO %1$s AS c (%2$s, %3$slast_updated) %4$s ON CONFLICT (%2$s) DO UPDATE'
            ' SET %5$slast_updated = excluded.last_updated WHERE excluded.last_updated > c.last_updated',
            v_cache, v_keys, v_values, v_newest, v_set)
        WHEN 'lock' THEN format(
            'INSERT INTO %1$s AS c (%2$s, last_updated) SELECT DISTINCT %2$s, timestamptz ''-infinity'' FROM %3$s r WHERE %4$s'
            ' ORDER BY %2$s ON CONFLICT (%2$s) DO UPDATE SET last_updated = c.last_updated',
            v_cache, v_keys, p_source, v_given)
        WHEN 'again' THEN format(
            'INSERT INTO %1$s AS c (%2$s, %3$slast_updated)'
            ' SELECT l.* FROM (SELECT DISTINCT %2$s FROM %4$s r WHERE %5$s) r,'
            ' LATERAL (SELECT %2$s, %3$s%6$I::timestamptz FROM %7$s c WHERE %8$s ORDER BY c.%6$I DESC LIMIT 1) l'
            ' ON CONFLICT (%2$s) DO UPDATE SET %9$slast_updated = excluded.last_updated',
            v_cache, v_keys, v_values, p_source, v_given, v_table.time_column, v_table.table_oid::regclass, v_same, v_set)
        WHEN 'gone' THEN format(
            'DELETE FROM %s r USING (SELECT DISTINCT %s FROM %s r WHERE %s) c'
            ' WHERE %s AND NOT EXISTS (SELECT FROM %s c WHERE %5$s)',
            v_cache, v_keys, p_source, v_given, v_same, v_table.table_oid::regclass)
    END;
END
$$;

COMMENT ON FUNCTION lakets._lvc_statement(int, text, text) IS
    'One of the statements that keep the last-value cache of a table.';
