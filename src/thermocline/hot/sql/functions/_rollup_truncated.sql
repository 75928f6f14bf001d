-- Tells the change feed that a RollUp was emptied, whoever did it.
CREATE OR REPLACE FUNCTION thermocline._rollup_truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
BEGIN
    PERFORM thermocline._tell(jsonb_build_object(
        'event', 'chunk_truncated', 'chronotable', s.chronotable_id, 'chunk', s.table_oid::bigint,
        'file', (SELECT c.relfilenode::bigint FROM pg_class c WHERE c.oid = s.table_oid),
        'range_start', p.range_start, 'range_end', p.range_end))
    FROM thermocline.synced_table s JOIN thermocline.resident_part p ON p.id = s.chronotable_id
    WHERE s.table_oid = TG_RELID AND s.of_rollup IS NOT NULL;
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION thermocline._rollup_truncated() IS
    'Trigger of every synced RollUp: writes a message into the stream when it is truncated.';

REVOKE ALL ON FUNCTION thermocline._rollup_truncated() FROM PUBLIC;
