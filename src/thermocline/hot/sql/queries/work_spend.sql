-- Draws from the bucket of a class, which fills with time up to what a second brings; answers what is owed then, how much of it a second
-- pays, and after how many seconds an answer is a slow one. Callers at once take turns at the row, and each sees what the one before has left.
UPDATE thermocline.work_budget b
SET bytes_left = coalesce(least(b.bytes_per_second, b.bytes_left
        + b.bytes_per_second * greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - b.filled_at))) - %(bytes)s::float8, 0),
    operations_left = coalesce(least(b.operations_per_second, b.operations_left
        + b.operations_per_second * greatest(0, extract(epoch FROM pg_catalog.clock_timestamp() - b.filled_at))) - %(operations)s::float8, 0),
    filled_at = greatest(b.filled_at, pg_catalog.clock_timestamp())
WHERE b.class = %(class)s
RETURNING greatest(0, -b.bytes_left), greatest(0, -b.operations_left), b.bytes_per_second, b.operations_per_second,
    extract(epoch FROM b.slow_after)::float8;
