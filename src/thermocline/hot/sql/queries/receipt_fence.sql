-- Whoever waits for the feed says so: its next batch comes at once and goes past this record.
UPDATE thermocline.stream
SET wanted = greatest(wanted, pg_catalog.pg_logical_emit_message(true, 'thermocline',
        pg_catalog.json_build_object('event', 'fence', 'chronotable', %(table)s::int)::text))
RETURNING wanted::text;
