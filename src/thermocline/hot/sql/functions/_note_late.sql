-- Late rows were written to these times, whose chunks have left PostgreSQL: buckets of RollUps over them are frozen without those rows.
-- They are noted, and marked as to be recomputed where that is known.
CREATE OR REPLACE FUNCTION thermocline._note_late(p_chronotable_id int, p_first timestamptz, p_last timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO thermocline.late_time (chronotable_id, first_time, last_time) VALUES (p_chronotable_id, p_first, p_last);
    IF to_regprocedure('lakets._mark_recompute(oid,timestamptz,timestamptz,text)') IS NOT NULL THEN
        EXECUTE 'SELECT lakets._mark_recompute(r.table_oid, $2, $3) FROM lakets._chronotable_registry r WHERE r.id = $1'
        USING p_chronotable_id, p_first, p_last + interval '1 microsecond';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._note_late(int, timestamptz, timestamptz) IS
    'Notes that late rows were written to times that have left PostgreSQL.';
