-- Removes the policies of these types from a table; a notice if there are none.
CREATE OR REPLACE FUNCTION lakets._remove_policies(p_chronotable_id int, p_policy_types text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM thermocline._require_owner(p_chronotable_id);
    DELETE FROM lakets._policy_registry WHERE chronotable_id = p_chronotable_id AND policy_type = ANY (p_policy_types);
    IF NOT FOUND THEN
        RAISE NOTICE '% has no such policy',
            (SELECT table_oid::regclass FROM lakets._chronotable_registry WHERE id = p_chronotable_id);
    END IF;
    UPDATE lakets._chronotable_registry t
    SET tiering_enabled    = EXISTS (SELECT FROM lakets._policy_registry p
                                     WHERE p.chronotable_id = t.id AND p.policy_type <> 'retention'),
        retention_interval = (SELECT (p.config ->> 'drop_after')::interval FROM lakets._policy_registry p
                              WHERE p.chronotable_id = t.id AND p.policy_type <> 'tiering')
    WHERE t.id = p_chronotable_id;
END
$$;

COMMENT ON FUNCTION lakets._remove_policies(int, text[]) IS 'Removes a ChronoTable''s policies of the given types.';
