-- Refuses a RollUp that depends on itself, on one that does not exist, or on one that depends on it.
CREATE OR REPLACE FUNCTION lakets._rollup_deps() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_unknown int;
BEGIN
    IF NEW.id = ANY (NEW.depends_on) THEN
        RAISE EXCEPTION 'the RollUp % cannot depend on itself', NEW.name USING HINT = 'Leave it out of depends_on.';
    END IF;
    SELECT d INTO v_unknown FROM unnest(NEW.depends_on) d
    WHERE NOT EXISTS (SELECT FROM lakets._rollup_registry g WHERE g.id = d) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the RollUp % depends on %, which does not exist', NEW.name, v_unknown
            USING HINT = 'SELECT id, name FROM lakets._rollup_registry lists them.';
    END IF;
    PERFORM lakets._build_rollup_dag();
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION lakets._rollup_deps() IS 'Trigger of the registry of RollUps: dependencies exist and form no circle.';

CREATE OR REPLACE TRIGGER trg_validate_rollup_deps AFTER INSERT OR UPDATE OF depends_on ON lakets._rollup_registry
    FOR EACH ROW EXECUTE FUNCTION lakets._rollup_deps();
