-- Sets aside what is synced in shadow mode and whose mirror somebody has dropped: one table or RollUp, or all. Returns them.
CREATE OR REPLACE FUNCTION thermocline._unmirrored(p_chronotable_id int DEFAULT NULL) RETURNS SETOF int
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH gone AS (
        UPDATE thermocline.synced_table s
        SET status = 'SKIPPED', reason = 'Its mirror in lakets_cdf was dropped. `thermocline feed resync TABLE --yes` makes it anew.'
        WHERE s.chronotable_id = coalesce(p_chronotable_id, s.chronotable_id) AND s.status NOT IN ('SKIPPED', 'TERMINATED')
          AND s.shadow_oid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.shadow_oid)
        RETURNING s.chronotable_id
    ), uncovered AS (
        DELETE FROM thermocline.chunk_copy k USING gone g WHERE k.chronotable_id = g.chronotable_id
    )
    SELECT g.chronotable_id FROM gone g
$$;

COMMENT ON FUNCTION thermocline._unmirrored(int) IS 'Sets aside what has lost its mirror; returns it.';
