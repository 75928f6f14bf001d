-- Drops the chunks that a table's retention policy no longer keeps: on proof when the table is synced or tiered retention
-- was asked for, outright otherwise or by force. Force skips the proof, never the check that it is our own chunk.
CREATE OR REPLACE FUNCTION lakets.execute_retention(
    p_table_name  text,
    p_schema_name text    DEFAULT 'public',
    p_force       boolean DEFAULT false
) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v_id     int := lakets._chronotable_id(p_table_name, p_schema_name);
    v_policy lakets._policy_registry;
BEGIN
    IF p_force IS NULL THEN
        RAISE EXCEPTION 'p_force is NULL for %.%: by force, or not?', p_schema_name, p_table_name
            USING HINT = 'Leave it out, unless chunks are to go without proof.';
    END IF;
    SELECT * INTO v_policy FROM lakets._policy_registry
    WHERE chronotable_id = v_id AND policy_type IN ('retention', 'tiered_retention') AND enabled
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RAISE NOTICE '%.% has no retention policy that is enabled and not at work already', p_schema_name, p_table_name
            USING HINT = format('SELECT lakets.add_retention_policy(%L, <interval>, %L) adds one.',
                                p_table_name, p_schema_name);
        RETURN 0;
    END IF;
    UPDATE lakets._policy_registry SET last_run_at = now() WHERE id = v_policy.id;
    RETURN thermocline._drop_chunks(
        v_id, thermocline._age_limit(v_policy.config ->> 'drop_after', 'drop_after',
                                     format('the %s policy of %s.%s', v_policy.policy_type, p_schema_name, p_table_name)),
        NOT p_force AND lakets._is_gated(v_id), p_force,
        format('%s policy %s: drop_after %s', v_policy.policy_type, v_policy.id, v_policy.config ->> 'drop_after'));
END
$$;

COMMENT ON FUNCTION lakets.execute_retention(text, text, boolean) IS
    'Drops the chunks of a ChronoTable that are older than its retention policy keeps; returns how many.';
