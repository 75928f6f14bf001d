-- The condition that a row of a mirror lies within times, in the type and by the name that the mirror's own time column has.
CREATE OR REPLACE FUNCTION thermocline._mirror_within(p_chronotable_id int, p_times tstzrange) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT concat_ws(' AND ', 'true',
        CASE WHEN NOT lower_inf(p_times) THEN format('%I >= %L', a.attname, lakets._bound_of(lower(p_times), y.type)) END,
        CASE WHEN NOT upper_inf(p_times) THEN format('%I %s %L', a.attname, CASE WHEN upper_inc(p_times) THEN '<=' ELSE '<' END,
                                                     lakets._bound_of(upper(p_times), y.type)) END)
    FROM thermocline.synced_table s
    JOIN thermocline.relation r ON r.id = s.chronotable_id
    JOIN pg_attribute t ON t.attrelid = r.table_oid AND t.attname = r.time_column
    JOIN pg_attribute a ON a.attrelid = s.shadow_oid AND a.attnum = t.attnum, -- by number: it may be about to be renamed
    LATERAL format_type(a.atttypid, NULL) y (type)
    WHERE s.chronotable_id = p_chronotable_id
$$;

COMMENT ON FUNCTION thermocline._mirror_within(int, tstzrange) IS 'The condition that rows of a mirror lie within times.';
