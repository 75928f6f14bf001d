-- The release that this database holds.
SELECT version, sha256, objects FROM thermocline.release;
