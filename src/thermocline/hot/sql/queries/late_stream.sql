-- Which stream it is that brings rows to the lake.
SELECT pg_catalog.jsonb_build_object('slot_name', t.slot_name::text, 'system_identifier', t.system_identifier, 'timeline', t.timeline,
                                     'epoch', t.epoch, 'slot_made', extract(epoch FROM t.created_at))
FROM thermocline.stream t;
