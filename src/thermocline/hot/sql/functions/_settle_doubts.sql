-- Sees to the doubts about a mirror: chunks that they are about do not count as covered any more, so that they are compared and copied again. Until
-- then the table does not count as streaming: what was written in doubt is in no change that the stream shows, so no state before the copy is known. Rows
-- of ranges that have left PostgreSQL are taken out of the mirror, p_most of them at a time, without a word in the history. Returns how many.
-- A doubt about a chunk that is not covered anyhow stays until it is compared: the stream may yet show that the chunk was made.
-- As makers of chunks do, it holds the table's row, so that no range becomes resident meanwhile.
CREATE OR REPLACE FUNCTION thermocline._settle_doubts(p_chronotable_id int, p_most bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET lock_timeout = '400ms'
AS $$
DECLARE
    v_shadow  regclass := (SELECT shadow_oid FROM thermocline.synced_table WHERE chronotable_id = p_chronotable_id);
    v_times   tstzmultirange;
    v_gone    tstzmultirange;
    v_removed bigint;
BEGIN
    PERFORM FROM lakets._chronotable_registry r WHERE r.id = p_chronotable_id FOR UPDATE;
    WITH taken AS (
        DELETE FROM thermocline.mirror_doubt d
        WHERE d.chronotable_id = p_chronotable_id
          AND NOT EXISTS (SELECT FROM thermocline.resident_part p
                          WHERE p.id = p_chronotable_id AND d.times <@ tstzrange(p.range_start, p.range_end)
                            AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = p.part_oid))
        RETURNING d.times
    )
    SELECT range_agg(t.times) INTO v_times FROM taken t;
    IF v_times IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO thermocline.mirror_doubt (chronotable_id, times)
    SELECT p.id, tstzrange(p.range_start, p.range_end) FROM thermocline.resident_part p
    WHERE p.id = p_chronotable_id AND tstzrange(p.range_start, p.range_end) && v_times
      AND NOT EXISTS (SELECT FROM thermocline.chunk_copy k WHERE k.chunk_oid = p.part_oid);
    DELETE FROM thermocline.chunk_copy k USING thermocline.resident_part p
    WHERE p.id = p_chronotable_id AND k.chunk_oid = p.part_oid AND tstzrange(p.range_start, p.range_end) && v_times;
    IF FOUND THEN
        UPDATE thermocline.synced_table SET status = 'SNAPSHOTTING', complete_lsn = NULL, complete_at = NULL
        WHERE chronotable_id = p_chronotable_id AND status = 'STREAMING';
    END IF;
    SELECT v_times - coalesce(range_agg(tstzrange(p.range_start, p.range_end)), '{}') INTO v_gone
    FROM thermocline.resident_part p WHERE p.id = p_chronotable_id;
    IF isempty(v_gone) THEN
        RETURN 0;
    END IF;
    PERFORM thermocline._read_as(p_chronotable_id, 'nothing');
    EXECUTE format('DELETE FROM %1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %1$s WHERE %2$s LIMIT %3$s))', v_shadow,
                   (SELECT string_agg(format('(%s)', thermocline._mirror_within(p_chronotable_id, x)), ' OR ') FROM unnest(v_gone) x),
                   p_most);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    PERFORM thermocline._read_as(p_chronotable_id, 'change');
    IF v_removed >= p_most THEN  -- there may be more
        INSERT INTO thermocline.mirror_doubt (chronotable_id, times) SELECT p_chronotable_id, x FROM unnest(v_gone) x;
    END IF;
    RETURN v_removed;
END
$$;

COMMENT ON FUNCTION thermocline._settle_doubts(int, bigint) IS
    'Lets doubted chunks be compared again, and removes from a mirror what has left PostgreSQL; returns how many rows.';

REVOKE ALL ON FUNCTION thermocline._settle_doubts(int, bigint) FROM PUBLIC;
