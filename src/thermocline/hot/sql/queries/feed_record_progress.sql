-- Every table of the batch has come as far as the batch, also one that had no row in it; not one that has joined anew since then.
UPDATE thermocline.synced_table s
SET committed_lsn = greatest(committed_lsn, %(end)s::pg_lsn), current_at = greatest(current_at, %(current_at)s::timestamptz)
FROM unnest(%(tables)s::int[], %(joined)s::timestamptz[]) AS t (id, joined)
WHERE s.chronotable_id = t.id AND s.joined_at = t.joined AND s.status NOT IN ('TERMINATED', 'SKIPPED');
