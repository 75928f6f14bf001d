-- The mode in which a table is to be synced: the one that was asked for, or that it has already, or that the setting lakets.sync_mode names;
-- direct unless that is set for the database or the role.
CREATE OR REPLACE FUNCTION thermocline._sync_mode(p_mode text, p_now text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_set  text := nullif(current_setting('lakets.sync_mode', true), '');
    v_mode text := coalesce(p_mode, p_now, v_set, 'direct');
BEGIN
    IF v_mode NOT IN ('direct', 'shadow') THEN
        RAISE EXCEPTION 'there is no mode % of sync%', quote_literal(v_mode),
            CASE WHEN p_mode IS NULL THEN ', which the setting lakets.sync_mode names' ELSE '' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The modes are direct and shadow.';
    END IF;
    RETURN v_mode;
END
$$;

COMMENT ON FUNCTION thermocline._sync_mode(text, text) IS 'Which mode of sync is meant: direct or shadow.';
