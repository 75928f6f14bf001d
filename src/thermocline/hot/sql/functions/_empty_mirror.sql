-- A table was truncated, or one chunk of it: its rows leave the mirror. The history is told by the message about the chunk. Under an old
-- snapshot some of them cannot be seen, so that part is compared by the feed.
CREATE OR REPLACE FUNCTION thermocline._empty_mirror(p_chronotable_id int, p_relation oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_synced thermocline.synced_table;
    v_chunk  lakets._chunk_metadata;
BEGIN
    SELECT * INTO STRICT v_synced FROM thermocline.synced_table WHERE chronotable_id = p_chronotable_id;
    IF p_relation = v_synced.table_oid THEN
        EXECUTE format('TRUNCATE %s', v_synced.shadow_oid::regclass);
        RETURN;
    END IF;
    SELECT * INTO v_chunk FROM lakets._chunk_metadata WHERE chunk_oid = p_relation AND status <> 'dropped';
    IF FOUND THEN
        PERFORM thermocline._read_as(p_chronotable_id, 'nothing');
        EXECUTE format('DELETE FROM %s WHERE %s', v_synced.shadow_oid::regclass,
                       thermocline._mirror_within(p_chronotable_id, tstzrange(v_chunk.range_start, v_chunk.range_end)));
        PERFORM thermocline._read_as(p_chronotable_id, 'change');
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO thermocline.mirror_doubt (chronotable_id, times)
        VALUES (p_chronotable_id, tstzrange(v_chunk.range_start, v_chunk.range_end));
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._empty_mirror(int, oid) IS 'Takes the rows of a truncated table or chunk out of its mirror.';

REVOKE ALL ON FUNCTION thermocline._empty_mirror(int, oid) FROM PUBLIC;
