-- This release is in now; lakets._version shows the same to users.
WITH recorded AS (
    INSERT INTO thermocline.release (version, sha256, objects) VALUES (%(version)s, %(sha256)s, %(objects)s)
    ON CONFLICT (singleton) DO UPDATE
        SET version = excluded.version, sha256 = excluded.sha256, objects = excluded.objects,
            installed_at = pg_catalog.now()
    RETURNING version
), updated AS (
    UPDATE lakets._version v SET version = r.version, installed_at = pg_catalog.now()
    FROM recorded r
    RETURNING v.version
)
INSERT INTO lakets._version (version, modules)
SELECT r.version, '{core}' FROM recorded r WHERE NOT EXISTS (SELECT FROM lakets._version);
