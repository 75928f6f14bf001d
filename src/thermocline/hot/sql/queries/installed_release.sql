-- The release that this database holds.
SELECT version, sha256 FROM thermocline.release;
