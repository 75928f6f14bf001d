-- The stream has come so far, and whatever was committed before that moment is in the lake.
UPDATE thermocline.stream
SET position = greatest(position, %(position)s::pg_lsn), current_at = greatest(current_at, %(current_at)s::timestamptz);
