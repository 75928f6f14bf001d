-- A record of our own in the log: its position is new, and it is the copy's.
SELECT pg_catalog.pg_logical_emit_message(true, 'thermocline', pg_catalog.json_build_object(
    'event', 'chunk_copied', 'chronotable', %(table)s::int, 'chunk', %(chunk)s::bigint)::text)::text;
