-- Whether a chunk of this table needs proof before it is dropped: when the table is synced, or was meant to be tiered.
CREATE OR REPLACE FUNCTION lakets._is_gated(p_chronotable_id int) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM thermocline.synced_table s
                   WHERE s.chronotable_id = p_chronotable_id AND s.status <> 'TERMINATED')
        OR EXISTS (SELECT FROM lakets._policy_registry p
                   WHERE p.chronotable_id = p_chronotable_id AND p.policy_type = 'tiered_retention')
$$;

COMMENT ON FUNCTION lakets._is_gated(int) IS 'Whether chunks of a ChronoTable are dropped on proof only.';
