-- A run-once file has run.
INSERT INTO thermocline.migration (name, sha256) VALUES (%(name)s, %(sha256)s);
