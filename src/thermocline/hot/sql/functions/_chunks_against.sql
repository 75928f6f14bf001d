-- What speaks against dropping each of these chunks, as far as it can be told without a lock on them and without reading their rows:
-- what is left, the bounds and the rows, thermocline._chunk_verdict looks at. Each line below is something
-- that must hold, and what cannot be known does not hold. The groups go from cheap to dear and the first that refuses ends it; doubts
-- about the lake come up only when nothing else is left. All chunks are looked at together: there may be thousands.
-- An ungated drop must only be of our own chunk where we left it; p_gated NULL asks for each as its table's policy and sync say.
CREATE OR REPLACE FUNCTION thermocline._chunks_against(
    p_chunks  oid[],
    p_gated   boolean DEFAULT NULL,
    p_receipt bigint  DEFAULT NULL
) RETURNS TABLE (
    chunk_oid  oid,
    codes      text[],
    since      timestamptz,
    gated      boolean,
    receipt_id bigint,
    made_at    timestamptz,
    table_name text,
    schema_name text,
    feed       text,
    rollups    text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO'
SET jit = off
SET plan_cache_mode = auto
AS $$
#variable_conflict use_column
BEGIN
    -- A few chunks are looked at with a plan that is kept; for thousands it would be the wrong one.
    PERFORM set_config('plan_cache_mode', CASE WHEN cardinality(p_chunks) > 20 THEN 'force_custom_plan' ELSE 'force_generic_plan' END, true);
    RETURN QUERY
    WITH tables AS MATERIALIZED (
        SELECT t.id, t.table_oid, t.table_name, t.schema_name,
               coalesce(p_gated, lakets._is_gated(t.id)) AS gated,
               s.status, s.table_oid AS synced_oid, s.lake_table, s.joined_at,
               CASE s.status WHEN 'JOINING' THEN 'SNAPSHOTTING' ELSE s.status END || coalesce(': ' || s.reason, '') AS feed,
               u.has_rollups, u.whole_until, u.marked
        FROM lakets._chronotable_registry t
        LEFT JOIN thermocline.synced_table s ON s.chronotable_id = t.id
        CROSS JOIN LATERAL (
            -- Chunks that end long before what is whole, and far from any mark, need not be asked one by one.
            SELECT count(*) > 0 AS has_rollups, min(coalesce(g.complete_until - 2 * g.bucket_interval, '-infinity')) AS whole_until,
                   range_agg(k.marked) AS marked
            FROM lakets._rollup_registry g
            LEFT JOIN LATERAL (
                SELECT tstzrange(min(m.first_time) - 2 * g.bucket_interval, max(m.last_time) + 2 * g.bucket_interval, '[]') AS marked
                FROM thermocline._marks(g) m HAVING count(*) > 0
            ) k ON true
            WHERE g.source_chronotable_id = t.id
        ) u
        WHERE t.id IN (SELECT m.chronotable_id FROM unnest(p_chunks) a (oid) JOIN lakets._chunk_metadata m ON m.chunk_oid = a.oid
                       WHERE m.status <> 'dropped')
    ), history AS MATERIALIZED (
        SELECT t.*, (t.system_identifier, t.timeline) = (h.system_identifier, h.timeline)
                    AND EXISTS (SELECT FROM pg_replication_slots s
                                WHERE s.slot_name = t.slot_name AND s.database = current_database()
                                  AND s.wal_status <> 'lost') AS stands,
               pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS next_xid
        FROM thermocline._server_history() h LEFT JOIN thermocline.stream t ON true
    ), places AS MATERIALIZED (
        SELECT a.oid, m.id, m.chronotable_id, m.range_start, m.range_end, m.created_at, c.relfilenode,
               coalesce(i.inhdetachpending, false) AS pending,
               CASE WHEN i.inhparent IS NULL THEN d.chunk_oid IS NOT NULL ELSE i.inhparent = t.table_oid END AS in_place
        FROM unnest(p_chunks) a (oid)
        LEFT JOIN lakets._chunk_metadata m ON m.chunk_oid = a.oid AND m.status <> 'dropped'
        LEFT JOIN tables t ON t.id = m.chronotable_id
        LEFT JOIN pg_class c ON c.oid = a.oid AND c.relkind = 'r'
        LEFT JOIN pg_inherits i ON i.inhrelid = a.oid
        LEFT JOIN thermocline.detaching d ON d.chunk_oid = a.oid AND d.chronotable_id = t.id
    ), first_looked AS MATERIALIZED (
        SELECT p.*, coalesce(p_gated, t.gated) AS gated, t.table_name, t.schema_name, t.table_oid, t.status, t.synced_oid, t.feed, t.lake_table, t.joined_at,
               CASE WHEN t.has_rollups AND t.gated AND NOT (p.range_end <= t.whole_until
                                                            AND NOT coalesce(t.marked && tstzrange(p.range_start, p.range_end), false))
                    THEN (SELECT string_agg(b.name, ', ') FROM thermocline._rollups_behind(t.id, p.range_start, p.range_end) b)
               END AS rollups,
               array_remove(ARRAY[
                   CASE WHEN (current_setting('transaction_isolation') = 'read committed') IS NOT TRUE THEN 'isolation_level' END,
                   CASE WHEN p.id IS NULL THEN 'unknown_chunk' END,
                   CASE WHEN p.id IS NOT NULL AND p.relfilenode IS NULL THEN 'gone' END,
                   CASE WHEN p.pending THEN 'detach_pending' END,
                   CASE WHEN (p.id IS NULL OR p.relfilenode IS NULL OR p.pending OR p.in_place) IS NOT TRUE THEN 'moved' END,
                   CASE WHEN d.refobjid IS NOT NULL THEN 'depended_on' END], NULL) AS codes
        FROM places p
        LEFT JOIN tables t ON t.id = p.chronotable_id
        LEFT JOIN (SELECT DISTINCT d.refobjid FROM pg_depend d
                   WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (p_chunks) AND d.deptype = 'n'
                     AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)) d ON d.refobjid = p.oid
    ), shapes AS MATERIALIZED (
        -- Most chunks of a table have the same columns: they are described once for all that are alike.
        SELECT f.oid, bit_xor(hash_record_extended(row(a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attmissingval::text,
                                                   pg_get_expr(g.adbin, g.adrelid)), 0)) AS shape
        FROM first_looked f
        JOIN pg_attribute a ON a.attrelid = f.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef g ON a.attgenerated <> '' AND g.adrelid = a.attrelid AND g.adnum = a.attnum
        WHERE f.codes = '{}' AND f.gated
        GROUP BY f.oid
    ), described AS MATERIALIZED (
        SELECT d.shape, thermocline._chunk_columns(d.oid) AS columns
        FROM (SELECT s.shape, min(s.oid) AS oid FROM shapes s GROUP BY s.shape) d
    ), covered AS MATERIALIZED (
        SELECT f.*, r.*,
               CASE WHEN f.codes <> '{}' OR f.gated IS FALSE THEN f.codes ELSE array_remove(ARRAY[
                   CASE WHEN (f.status <> 'TERMINATED' AND f.synced_oid = f.table_oid) IS NOT TRUE THEN 'not_synced' END,
                   CASE WHEN (f.status IS NULL OR f.status IN ('STREAMING', 'TERMINATED')) IS NOT TRUE THEN 'feed_not_streaming' END,
                   CASE WHEN f.status IS NOT NULL AND k.chunk_oid IS NULL THEN 'not_covered' END,
                   CASE WHEN f.rollups IS NOT NULL THEN 'rollup_behind' END,
                   CASE WHEN r.receipt IS NULL THEN 'no_receipt' END], NULL) END AS against
        FROM first_looked f
        LEFT JOIN thermocline.chunk_copy k ON k.chunk_oid = f.oid AND k.chronotable_id = f.chronotable_id
        LEFT JOIN shapes s ON s.oid = f.oid LEFT JOIN described e ON e.shape = s.shape
        LEFT JOIN LATERAL (
            SELECT r.id AS receipt, r.made_at, r.next_xid, r.lake_checked_at, r.lake_checked_metadata, r.lake_table AS proven_in,
                   (r.system_identifier, r.timeline, r.slot_name) = (h.system_identifier, h.timeline, h.slot_name)
                       AND r.epoch <= h.epoch AND r.made_at >= h.created_at AND h.stands AS of_history,
                   h.next_xid - r.next_xid::text::numeric BETWEEN 0 AND 2147483647  -- then numbers of transactions come again
                       AND (r.chronotable_id, r.range_start, r.range_end) = (f.chronotable_id, f.range_start, f.range_end) AS young,
                   r.relfilenode = f.relfilenode AS same_file, r.columns = e.columns AS same_columns
            FROM thermocline.receipt r, history h WHERE r.chunk_oid = f.oid ORDER BY r.id DESC LIMIT 1
        ) r ON true
    ), proven AS (
        SELECT c.*,
               CASE WHEN c.against <> '{}' OR c.gated IS FALSE THEN c.against ELSE array_remove(ARRAY[
                   CASE WHEN c.of_history IS NOT TRUE THEN 'other_history' END,
                   CASE WHEN (c.receipt = coalesce(p_receipt, c.receipt) AND c.young) IS NOT TRUE THEN 'receipt_stale' END,
                   CASE WHEN c.same_file IS NOT TRUE THEN 'rewritten' END,
                   CASE WHEN c.same_columns IS NOT TRUE THEN 'columns_changed' END], NULL) END AS still
        FROM covered c
    ), in_lake AS MATERIALIZED (
        SELECT i.table_namespace || '.' || i.table_name AS name, i.metadata_location AS location
        FROM thermocline_lake.iceberg_tables i WHERE i.catalog_name = 'lake'
    ), told AS (
        SELECT p.*,
               CASE WHEN p.still <> '{}' OR p.gated IS FALSE THEN p.still ELSE array_remove(ARRAY[
                   CASE WHEN (p.lake_table = p.proven_in
                              AND (x.looked OR l.location IS NULL OR p.lake_checked_metadata IS NULL
                                   OR l.location = p.lake_checked_metadata)) IS NOT TRUE THEN 'lake_changed' END,
                   CASE WHEN (x.looked OR l.location <> p.lake_checked_metadata) IS NOT TRUE THEN 'lake_unchecked' END], NULL)
               END AS all_codes
        FROM proven p
        LEFT JOIN in_lake l ON l.name = p.proven_in
        CROSS JOIN LATERAL (
            -- A catalog of ours tells the version of the lake's table: the one that was looked at, or one that the feed has just
            -- made from it. An older one is another state of the lake.
            SELECT CASE
                WHEN l.location = p.lake_checked_metadata
                    THEN p.lake_checked_at BETWEEN clock_timestamp() - interval '1 day' AND clock_timestamp()
                ELSE p.lake_checked_at BETWEEN clock_timestamp() - interval '60 seconds' AND clock_timestamp()
                     AND coalesce(substring(l.location FROM '/([0-9]+)-[^/]*$')::bigint
                                  > substring(p.lake_checked_metadata FROM '/([0-9]+)-[^/]*$')::bigint, true)
                END AS looked
        ) x
    )
    SELECT w.oid, w.all_codes,
           CASE w.all_codes[1]
               WHEN 'no_receipt' THEN w.created_at
               WHEN 'not_covered' THEN w.joined_at
               WHEN 'feed_not_streaming' THEN w.joined_at
               WHEN 'receipt_stale' THEN w.made_at
               WHEN 'rewritten' THEN w.made_at
               WHEN 'columns_changed' THEN w.made_at
               WHEN 'lake_changed' THEN w.made_at
               WHEN 'lake_unchecked' THEN coalesce(w.lake_checked_at, w.made_at)
           END,
           w.gated, w.receipt, w.made_at, w.table_name, w.schema_name, w.feed, w.rollups
    FROM told w;
END
$$;

COMMENT ON FUNCTION thermocline._chunks_against(oid[], boolean, bigint) IS
    'Codes of the reasons against dropping each chunk, without reading rows; an empty array where there is none.';
