-- Refuses TRUNCATE of late rows, be it of the trap or of its table: a TRUNCATE of a partition does not stream, so the lake would keep
-- rows that PostgreSQL has not. Runs with the rights of whoever truncates.
CREATE OR REPLACE FUNCTION thermocline._keep_late_rows() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF thermocline._trap_has_rows(TG_RELID) THEN
        RAISE EXCEPTION 'cannot truncate %: it has late rows that are on their way to the lake', TG_RELID::regclass
            USING HINT = '`thermocline late` lets them go once the lake has them. DELETE takes them back, here and in the lake.';
    END IF;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._keep_late_rows() IS 'Trigger of every trap that takes rows: refuses to truncate them.';
