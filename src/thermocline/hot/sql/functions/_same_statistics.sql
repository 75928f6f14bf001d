-- Gives a table that was made of another by LIKE what LIKE leaves out of its statistics: targets and options of columns, targets of
-- extended statistics. These belong to the table's owner then, whoever made it. A number of distinct values that was set for a table is
-- meant for all of its rows, so a partitioned one gets it as n_distinct_inherited too.
CREATE OR REPLACE FUNCTION thermocline._same_statistics(p_from oid, p_to oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_to constant pg_class := (SELECT c FROM pg_class c WHERE c.oid = p_to);
    v_do text;
BEGIN
    FOR v_do IN
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', p_to::regclass, a.attname, a.attstattarget)
        FROM pg_attribute a WHERE a.attrelid = p_from AND a.attnum > 0 AND NOT a.attisdropped AND a.attstattarget >= 0
        UNION ALL
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', p_to::regclass, a.attname, thermocline._option_list(
                   a.attoptions || ARRAY(SELECT replace(o, 'n_distinct=', 'n_distinct_inherited=') FROM unnest(a.attoptions) o
                                         WHERE v_to.relkind = 'p' AND o LIKE 'n\_distinct=%'
                                           AND a.attoptions::text NOT LIKE '%n\_distinct\_inherited=%')))
        FROM pg_attribute a WHERE a.attrelid = p_from AND a.attnum > 0 AND NOT a.attisdropped AND a.attoptions IS NOT NULL
        UNION ALL
        SELECT format('ALTER STATISTICS %I.%I %s', n.nspname, t.stxname, x.change)
        FROM thermocline._statistics_alike(p_from, p_to) p
        JOIN pg_statistic_ext f ON f.oid = p.from_oid
        JOIN pg_statistic_ext t ON t.oid = p.to_oid
        JOIN pg_namespace n ON n.oid = t.stxnamespace,
             LATERAL (SELECT 'SET STATISTICS ' || f.stxstattarget WHERE f.stxstattarget >= 0
                      UNION ALL
                      SELECT format('OWNER TO %I', pg_get_userbyid(v_to.relowner)) WHERE t.stxowner <> v_to.relowner) x (change)
    LOOP
        EXECUTE v_do;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._same_statistics(oid, oid) IS
    'Gives a table the settings of statistics that another has and LIKE does not copy.';
