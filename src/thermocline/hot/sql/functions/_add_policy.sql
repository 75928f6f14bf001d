-- Adds a policy to a table, one of a kind: plain and tiered retention are one kind, tiering is another.
CREATE OR REPLACE FUNCTION lakets._add_policy(p_chronotable_id int, p_policy_type text, p_config jsonb) RETURNS int
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table    lakets._chronotable_registry;
    v_existing text;
    v_policy   int;
    v_key      text;
    v_value    text;
BEGIN
    PERFORM thermocline._require_owner(p_chronotable_id);
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry WHERE id = p_chronotable_id FOR UPDATE;
    SELECT p.policy_type INTO v_existing FROM lakets._policy_registry p
    WHERE p.chronotable_id = p_chronotable_id AND (p.policy_type = 'tiering') = (p_policy_type = 'tiering');
    IF FOUND THEN
        RAISE EXCEPTION '%.% has a % policy already', v_table.schema_name, v_table.table_name, v_existing
            USING HINT = format('SELECT lakets.remove_%s_policy(%L, %L) removes it.',
                                CASE p_policy_type WHEN 'tiering' THEN 'tiering' ELSE 'retention' END,
                                v_table.table_name, v_table.schema_name);
    END IF;
    FOR v_key, v_value IN SELECT * FROM jsonb_each_text(p_config) LOOP
        IF v_value IS NULL OR v_value::interval <= interval '0' THEN
            RAISE EXCEPTION 'the policy of %.% needs a positive %', v_table.schema_name, v_table.table_name, v_key
                USING HINT = 'Give an interval, for example ''90 days''.';
        END IF;
    END LOOP;
    INSERT INTO lakets._policy_registry (chronotable_id, policy_type, config)
    VALUES (p_chronotable_id, p_policy_type, p_config) RETURNING id INTO v_policy;
    UPDATE lakets._chronotable_registry
    SET tiering_enabled    = tiering_enabled OR p_policy_type <> 'retention',
        retention_interval = coalesce((p_config ->> 'drop_after')::interval, retention_interval)
    WHERE id = p_chronotable_id;
    IF p_policy_type = 'retention' THEN
        RETURN v_policy;
    END IF;

    UPDATE lakets._chunk_metadata SET last_write_lsn = pg_current_wal_insert_lsn()
    WHERE chronotable_id = p_chronotable_id AND status <> 'dropped' AND last_write_lsn IS NULL;
    IF NOT EXISTS (SELECT FROM thermocline.synced_table s
                   WHERE s.chronotable_id = p_chronotable_id AND s.status <> 'TERMINATED') THEN
        RAISE NOTICE '%.% is not synced to the lake, so none of its chunks is tiered yet',
            v_table.schema_name, v_table.table_name
            USING HINT = format('SELECT lakets.enable_sync(%L, %L) syncs it.', v_table.table_name, v_table.schema_name);
    END IF;
    RETURN v_policy;
END
$$;

COMMENT ON FUNCTION lakets._add_policy(int, text, jsonb) IS
    'Adds a policy to a ChronoTable; an error if it has one of that kind.';
