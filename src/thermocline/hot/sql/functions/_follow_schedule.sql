-- After the schedule of partitions was set: the tables concerned get the chunks that last until its next run, now, as that may be
-- long after those that there are. Refuses a schedule for which chunks cannot be made ahead far enough. Tables of others are
-- left to the next run.
CREATE OR REPLACE FUNCTION thermocline._follow_schedule(p_chronotable_id int) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_table  lakets._chronotable_registry;
    v_reason text;
BEGIN
    FOR v_table IN
        SELECT * FROM lakets._chronotable_registry r
        WHERE r.id = p_chronotable_id
           OR p_chronotable_id IS NULL AND NOT EXISTS (SELECT FROM thermocline.schedule o
                                                       WHERE o.kind = 'partitions' AND o.chronotable_id = r.id)
        ORDER BY r.id
    LOOP
        v_reason := thermocline._reason_against_schedule(v_table.chunk_interval, v_table.id);
        IF v_reason IS NOT NULL THEN
            RAISE EXCEPTION 'the schedule does not suit %.%: %', v_table.schema_name, v_table.table_name, v_reason
                USING HINT = 'Nothing was changed. Let it run more often, as SELECT lakets.schedule_set(''partitions'','
                             ' p_every => ''1 hour''), or choose longer chunks with lakets.set_chunk_interval.';
        END IF;
        IF pg_has_role((SELECT relowner FROM pg_class WHERE oid = v_table.table_oid), 'USAGE')
           AND NOT EXISTS (SELECT FROM lakets._chunk_metadata m
                           WHERE m.chronotable_id = v_table.id AND m.status <> 'dropped'
                             AND m.range_end >= now() + thermocline._chunk_gap(v_table.id)) THEN
            PERFORM lakets._ensure_partitions(v_table.id, 1, lakets._chunks_ahead(v_table.chunk_interval, v_table.id));
        END IF;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._follow_schedule(int) IS
    'Makes the chunks that last until the next run of a new schedule, for one ChronoTable or for all that follow the one for all.';
