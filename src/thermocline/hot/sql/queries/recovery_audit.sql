-- The catalog was made to point at another version of a history table.
INSERT INTO thermocline.audit (action, object, chronotable_id, reason, evidence)
VALUES ('recover_history', %(object)s, %(table)s, %(reason)s,
        pg_catalog.jsonb_build_object('pointer', %(pointer)s::text, 'adopted', %(newest)s::text, 'snapshots', %(snapshots)s::int));
