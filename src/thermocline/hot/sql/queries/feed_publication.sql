-- What the publication leaves out, if anything; no row when it is not there.
SELECT CASE
    WHEN NOT p.pubviaroot THEN 'publishes partitions under their own names'
    WHEN NOT (p.pubinsert AND p.pubupdate AND p.pubdelete) THEN 'does not publish every kind of change'
    WHEN EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
                 JOIN thermocline.synced_table s ON coalesce(s.shadow_oid, s.table_oid) = r.prrelid
                 WHERE r.prpubid = p.oid AND s.status <> 'TERMINATED' AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL))
    THEN 'has a filter of rows or a list of columns'
    WHEN NOT p.puballtables AND EXISTS (
        SELECT FROM thermocline.synced_table s
        WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
          AND EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = coalesce(s.shadow_oid, s.table_oid))
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r
                          WHERE r.prpubid = p.oid AND r.prrelid = coalesce(s.shadow_oid, s.table_oid)))
    THEN 'no longer has every table that is synced'
    WHEN EXISTS (SELECT FROM thermocline.published e
                 JOIN thermocline.synced_table s ON coalesce(s.shadow_oid, s.table_oid) = e.relation
                 WHERE s.status NOT IN ('TERMINATED', 'SKIPPED')
                   AND (e.entry[1] <> s.published_as[1] OR e.entry[2] <> s.published_as[2] AND e.entry[3] = s.published_as[3]))
    THEN 'is not what it was when its tables joined, and may have left something out for a while'
END
FROM pg_catalog.pg_publication p WHERE p.pubname = %(name)s;
