-- Nothing keeps the log before the first feed has run: it makes the slot.
SELECT slot_name, wal_status, kept_bytes, pinned_bytes, safe_bytes FROM lakets.feed_slot();
-- => no rows
