-- Only while the table streams: what was compared is the lake's content at a position of this very stream.
WITH doubted AS (DELETE FROM thermocline.unproven WHERE chunk_oid = %(chunk)s::oid)
INSERT INTO thermocline.receipt (
    chronotable_id, chunk_oid, chunk_name, range_start, range_end, row_count, fingerprint, relfilenode, columns,
    hash_one, hash_two, position, lake_table, lake_snapshot, lake_checked_metadata, lake_checked_at,
    system_identifier, timeline, slot_name, epoch, next_xid, lake_uuid)
SELECT %(table)s, %(chunk)s::oid, %(name)s, %(start)s, %(end)s, %(rows)s, %(fingerprint)s, %(relfilenode)s::oid, %(columns)s,
       %(one)s, %(two)s, %(position)s::pg_lsn, %(lake_table)s, %(lake_snapshot)s, %(metadata)s,
       pg_catalog.clock_timestamp(), t.system_identifier, t.timeline, t.slot_name, t.epoch, %(next_xid)s::xid8, %(uuid)s::uuid
FROM thermocline.stream t, thermocline.synced_table s
WHERE s.chronotable_id = %(table)s AND s.status = 'STREAMING'
RETURNING id;
