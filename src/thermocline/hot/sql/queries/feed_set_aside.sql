-- A table in trouble: from here on the stream passes it by, so nothing of it counts as covered any more.
WITH aside AS (
    UPDATE thermocline.synced_table SET status = 'SKIPPED', reason = %(reason)s
    WHERE chronotable_id = %(table)s AND status NOT IN ('TERMINATED', 'SKIPPED') RETURNING chronotable_id
)
DELETE FROM thermocline.chunk_copy c USING aside a WHERE c.chronotable_id = a.chronotable_id;
