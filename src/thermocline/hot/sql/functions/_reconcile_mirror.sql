-- The mirror of one ChronoTable: triggers that somebody has removed or switched off are put back, and what they have missed is doubted. A table
-- whose mirror is gone is set aside.
CREATE OR REPLACE FUNCTION thermocline._reconcile_mirror(p_chronotable_id int)
RETURNS TABLE (object text, finding text, done text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_one record;
BEGIN
    RETURN QUERY SELECT format('%I.%I', r.schema_name, r.table_name), 'somebody has dropped its mirror', 'set aside'
                 FROM thermocline._unmirrored(p_chronotable_id) g JOIN thermocline.relation r ON r.id = g;
    IF FOUND THEN
        RETURN;
    END IF;
    FOR v_one IN SELECT u.relation, u.times FROM thermocline._mirror_unwatched(p_chronotable_id) u ORDER BY u.relation LOOP
        BEGIN
            PERFORM thermocline._watch(v_one.relation, 'trg_lakets_sync', format('thermocline._mirrored(%L)', p_chronotable_id));
            INSERT INTO thermocline.mirror_doubt (chronotable_id, times) VALUES (p_chronotable_id, v_one.times);
            RETURN QUERY VALUES (v_one.relation::regclass::text, 'triggers that keep its mirror were gone, or switched off',
                                 'put back; what they may have missed is compared and copied again');
        EXCEPTION
            WHEN lock_not_available OR insufficient_privilege OR deadlock_detected THEN
                RETURN QUERY VALUES (v_one.relation::regclass::text, 'triggers that keep its mirror are gone, or switched off',
                                     'left alone for now: ' || SQLERRM);
        END;
    END LOOP;
END
$$;

COMMENT ON FUNCTION thermocline._reconcile_mirror(int) IS
    'Puts back what keeps the mirror of a ChronoTable; returns what was found and done.';
