-- Makes the empty table into which a dropped range is loaded; one that an earlier attempt has left behind goes first. What is written to
-- it does not stream: it is no part of its ChronoTable yet. The constraint lets it be attached without being read.
CREATE OR REPLACE FUNCTION thermocline._stage_range(
    p_chronotable_id int,
    p_range_start    timestamptz,
    OUT staged       text,
    OUT staged_oid   oid
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET lock_timeout = '2s'
AS $$
DECLARE
    v_table lakets._chronotable_registry;
    v_asked thermocline.rehydration;
    v_type  text;
BEGIN
    SELECT * INTO STRICT v_table FROM lakets._chronotable_registry r WHERE r.id = p_chronotable_id FOR UPDATE;
    SELECT * INTO STRICT v_asked FROM thermocline.rehydration r
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start FOR UPDATE;
    PERFORM thermocline._unstage(p_chronotable_id, p_range_start);
    IF NOT EXISTS (SELECT FROM thermocline.dropped_range d JOIN pg_class c ON c.oid = d.trap_oid
                   WHERE d.chronotable_id = p_chronotable_id AND d.range_start = p_range_start AND d.range_end = v_asked.range_end) THEN
        RAISE EXCEPTION 'the range from % to % of %.% is not a dropped one with a trap', p_range_start, v_asked.range_end,
            v_table.schema_name, v_table.table_name
            USING DETAIL = 'no_trap', HINT = 'Try again: a trap is set by `thermocline maintain`.';
    END IF;
    SELECT format_type(a.atttypid, NULL) INTO STRICT v_type
    FROM pg_attribute a WHERE a.attrelid = v_table.table_oid AND a.attname = v_table.time_column;
    staged := thermocline._make_chunk_table(p_chronotable_id, p_range_start, v_asked.range_end);
    staged_oid := staged::regclass::oid;
    EXECUTE format(
        'ALTER TABLE %s ADD CONSTRAINT thermocline_range CHECK (%I IS NOT NULL AND %2$I >= %3$L AND %2$I < %4$L)', staged,
        v_table.time_column, lakets._bound_of(p_range_start, v_type), lakets._bound_of(v_asked.range_end, v_type));
    UPDATE thermocline.rehydration r SET staged_oid = _stage_range.staged_oid, reason = NULL
    WHERE r.chronotable_id = p_chronotable_id AND r.range_start = p_range_start;
END
$$;

COMMENT ON FUNCTION thermocline._stage_range(int, timestamptz) IS
    'Makes the table into which a dropped range is loaded from the lake; returns its name and its oid.';
