-- Every history table of which a snapshot is on record: whose it is, whether the feed passes it by, and that snapshot.
SELECT s.lake_table, s.chronotable_id, pg_catalog.format('%I.%I', r.schema_name, r.table_name), s.status = 'SKIPPED', s.lake_snapshot
FROM thermocline.synced_table s JOIN thermocline.relation r ON r.id = s.chronotable_id
WHERE s.lake_snapshot IS NOT NULL;
