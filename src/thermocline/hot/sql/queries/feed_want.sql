-- Somebody waits for the stream to come so far: the next batch comes at once, and has every table.
UPDATE thermocline.stream SET wanted = greatest(wanted, %(position)s::pg_lsn) WHERE wanted < %(position)s::pg_lsn;
