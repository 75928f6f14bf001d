-- Objects outside our schemas that depend on something inside them, described for a person.
WITH ours AS (
    SELECT 'pg_catalog.pg_class'::regclass AS class, c.oid AS object
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%(schemas)s)
    UNION ALL
    SELECT 'pg_catalog.pg_proc'::regclass, p.oid
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = ANY (%(schemas)s)
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass, t.oid
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname = ANY (%(schemas)s)
)
SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
FROM pg_catalog.pg_depend d
JOIN ours o ON o.class = d.refclassid AND o.object = d.refobjid
CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) i
WHERE d.deptype IN ('n', 'a')
  AND NOT EXISTS (SELECT FROM ours x WHERE x.class = d.classid AND x.object = d.objid)
  AND COALESCE(i.schema, '') <> ALL (%(schemas)s)
  AND NOT EXISTS (  -- a default, rule, trigger or constraint of one of our own tables
      SELECT FROM pg_catalog.pg_depend own
      JOIN ours x ON x.class = own.refclassid AND x.object = own.refobjid
      WHERE own.classid = d.classid AND own.objid = d.objid AND own.deptype IN ('a', 'i')
  )
ORDER BY 1;
