-- First of all in a transaction that records anything: it finds no row when another feed owns the stream.
UPDATE thermocline.stream SET moved_at = pg_catalog.now() WHERE epoch = %(epoch)s RETURNING epoch;
