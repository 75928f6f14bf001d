-- What a name stands for in enable_sync, disable_sync and resync: a ChronoTable by schema and name, or a RollUp by the name that it was created
-- with, or by that of its table, under which the feed lists it. An error if it is neither, both, or somebody else's.
CREATE OR REPLACE FUNCTION thermocline._sync_target(
    p_table_name          text,
    p_schema_name         text,
    OUT id                int,
    OUT table_oid         oid,
    OUT title             text,
    OUT lake_table        text,
    OUT shadow_lake_table text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_rollup lakets._rollup_registry;
BEGIN
    IF p_table_name IS NULL OR p_schema_name IS NULL THEN
        RAISE EXCEPTION 'table and schema need names' USING HINT = 'For example SELECT lakets.enable_sync(''readings'').';
    END IF;
    SELECT * INTO v_rollup FROM lakets._rollup_registry g
    WHERE (g.name = p_table_name AND p_schema_name = 'public') OR g.rollup_oid = to_regclass(format('%I.%I', p_schema_name, p_table_name))
    ORDER BY g.name <> p_table_name LIMIT 1;
    IF v_rollup.id IS NULL OR to_regclass(format('%I.%I', p_schema_name, p_table_name)) IN (
           SELECT r.table_oid FROM lakets._chronotable_registry r) THEN
        SELECT * INTO STRICT v_table FROM lakets._chronotable_registry r
        WHERE r.id = lakets._chronotable_id(p_table_name, p_schema_name);
    END IF;
    IF v_rollup.id IS NOT NULL AND v_table.id IS NOT NULL THEN
        RAISE EXCEPTION '% is ambiguous: there is a ChronoTable and a RollUp of that name', p_table_name
            USING HINT = 'Rename the table, or make the RollUp anew under another name.';
    END IF;
    PERFORM thermocline._require_rollup_table(v_rollup) WHERE v_table.id IS NULL;
    id := coalesce(v_table.id, -v_rollup.id);
    table_oid := coalesce(v_table.table_oid, v_rollup.rollup_oid);
    PERFORM thermocline._require_owner_of(table_oid);
    SELECT format('%s.%s', n.nspname, c.relname),
           format('%s.lb_%s_history', thermocline._lake_name(n.nspname), thermocline._lake_name(c.relname)),
           format('%s.lb_%s_history', thermocline._lake_name(n.nspname),
                  thermocline._lake_name('_shadow_' || CASE WHEN id < 0 THEN regexp_replace(c.relname, '^_', '') ELSE c.relname END))
    INTO STRICT title, lake_table, shadow_lake_table
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = _sync_target.table_oid;
END
$$;

COMMENT ON FUNCTION thermocline._sync_target(text, text) IS 'The ChronoTable or RollUp that a name stands for.';
