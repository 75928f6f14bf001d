-- First of all in the transaction that records a batch: it fails to find the row when another feed owns the stream.
UPDATE thermocline.stream
SET position = greatest(position, %(end)s::pg_lsn), moved_at = pg_catalog.now(),
    current_at = greatest(current_at, %(current_at)s::timestamptz)
WHERE epoch = %(epoch)s
RETURNING position::text;
