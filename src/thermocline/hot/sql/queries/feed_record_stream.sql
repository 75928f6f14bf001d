INSERT INTO thermocline.stream (slot_name, publication, system_identifier, timeline, position)
VALUES (%(slot)s, 'thermocline', %(system)s, %(timeline)s, %(position)s::pg_lsn)
ON CONFLICT (only_one) DO UPDATE
    SET slot_name = excluded.slot_name, system_identifier = excluded.system_identifier, timeline = excluded.timeline,
        position = excluded.position, wanted = '0/0', moved_at = pg_catalog.now(), created_at = pg_catalog.now();
