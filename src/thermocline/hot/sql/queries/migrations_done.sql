-- The run-once files that this database has run.
SELECT name, sha256 FROM thermocline.migration ORDER BY name;
