-- The traps that a table should have: one for each range that has left, or with p_merge one for each run of neighbouring ranges. A trap
-- with rows in it stays as it is. Ranges that the lake has not stand apart: their traps say something else. So do, of a table that takes
-- late rows, those that take none yet. Listed are those that are to be made, with the traps that they replace.
CREATE OR REPLACE FUNCTION thermocline._trap_islands(p_chronotable_id int, p_merge boolean)
RETURNS TABLE (range_start timestamptz, range_end timestamptz, traps oid[], takes_rows boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH known AS (
        SELECT d.range_start, d.range_end, d.trap_oid, coalesce(pg_relation_size(c.oid), 0) > 0 AS filled,
               d.in_lake,
               r.late = 'lake' AND d.settled_position IS NOT NULL AND d.in_lake
                   AND EXISTS (SELECT FROM thermocline.synced_table s
                               WHERE s.chronotable_id = r.id AND s.status = 'STREAMING' AND s.mode = 'direct') AS takes_rows
        FROM thermocline.dropped_range d
        JOIN lakets._chronotable_registry r ON r.id = d.chronotable_id
        LEFT JOIN pg_class c ON c.oid = d.trap_oid
        WHERE d.chronotable_id = p_chronotable_id
    ), apart AS (
        SELECT k.*, NOT p_merge OR k.range_start IS DISTINCT FROM lag(k.range_end) OVER w
                    OR k.in_lake IS DISTINCT FROM lag(k.in_lake) OVER w OR k.takes_rows IS DISTINCT FROM lag(k.takes_rows) OVER w
                    OR (k.trap_oid IS DISTINCT FROM lag(k.trap_oid) OVER w AND (k.filled OR lag(k.filled) OVER w)) AS first
        FROM known k
        WINDOW w AS (ORDER BY k.range_start)
    ), numbered AS (
        SELECT a.*, count(*) FILTER (WHERE a.first) OVER (ORDER BY a.range_start) AS island FROM apart a
    )
    SELECT min(n.range_start), max(n.range_end),
           array_agg(DISTINCT n.trap_oid) FILTER (WHERE n.trap_oid IS NOT NULL), bool_and(n.takes_rows)
    FROM numbered n
    GROUP BY n.island
    HAVING bool_or(n.trap_oid IS NULL) OR count(DISTINCT n.trap_oid) > 1
           OR (p_merge AND NOT bool_or(n.filled) AND EXISTS (
                   SELECT FROM numbered o WHERE o.island <> n.island AND o.trap_oid = ANY (array_agg(n.trap_oid))))
    ORDER BY 1
$$;

COMMENT ON FUNCTION thermocline._trap_islands(int, boolean) IS
    'The traps of a table that are to be made, with the ones that they replace and whether they let rows in.';
