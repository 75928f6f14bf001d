-- Keeps the audit as it was written.
CREATE OR REPLACE FUNCTION thermocline._audit_is_append_only() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'thermocline.audit is append-only: % is refused', TG_OP
        USING HINT = 'What was written down stays; add a row that corrects it.';
END
$$;

COMMENT ON FUNCTION thermocline._audit_is_append_only() IS 'Trigger of thermocline.audit: rows are only ever added.';

CREATE OR REPLACE TRIGGER trg_thermocline_audit BEFORE UPDATE OR DELETE OR TRUNCATE ON thermocline.audit
    FOR EACH STATEMENT EXECUTE FUNCTION thermocline._audit_is_append_only();
ALTER TABLE thermocline.audit ENABLE ALWAYS TRIGGER trg_thermocline_audit;
