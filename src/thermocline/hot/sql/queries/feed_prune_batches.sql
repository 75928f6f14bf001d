-- An id is needed until its snapshot is mirrored; a day more for a feed that was asleep.
DELETE FROM thermocline.batch b USING thermocline.stream s
WHERE b.end_lsn <= s.position AND b.created_at < pg_catalog.now() - interval '1 day';
