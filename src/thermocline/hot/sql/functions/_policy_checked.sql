-- Refuses a policy whose ages make no sense, also when somebody sets it by hand: the jobs of every table read it.
CREATE OR REPLACE FUNCTION lakets._policy_checked() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM thermocline._age_limit(
        c.value, c.key, format('the %s policy of %s.%s', NEW.policy_type, r.schema_name, r.table_name))
    FROM jsonb_each_text(NEW.config) c, lakets._chronotable_registry r
    WHERE r.id = NEW.chronotable_id AND c.key IN ('after', 'tier_after', 'drop_after');
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION lakets._policy_checked() IS 'Trigger of lakets._policy_registry: ages that make no sense are refused.';

CREATE OR REPLACE TRIGGER trg_lakets_policy BEFORE INSERT OR UPDATE OF config ON lakets._policy_registry
    FOR EACH ROW EXECUTE FUNCTION lakets._policy_checked();
