-- How the server is asked what values of a type read: a table of the session's own for them, how they get there, and the question.
-- The answer is all texts in one, and the length of each. No row if there is no such type. A value of a domain is asked for as one of its
-- base: the two read the same, and what the domain demands now the value need not have met when it was written.
WITH RECURSIVE bases AS (
    SELECT p.oid, p.typtype, p.typbasetype FROM pg_catalog.pg_type p WHERE p.oid = %(type)s::oid
    UNION ALL
    SELECT p.oid, p.typtype, p.typbasetype FROM bases b JOIN pg_catalog.pg_type p ON p.oid = b.typbasetype
)
SELECT pg_catalog.format('CREATE TEMP TABLE IF NOT EXISTS %%I (number int8, value %%s) ON COMMIT DELETE ROWS', t.name, pg_catalog.format_type(t.oid, -1)),
       pg_catalog.format('COPY pg_temp.%%I FROM STDIN (FORMAT binary)', t.name),
       pg_catalog.format(
           'SELECT pg_catalog.string_agg(s.text, ''''), pg_catalog.array_agg(pg_catalog.octet_length(pg_catalog.convert_to(s.text, ''UTF8'')))'
           ' FROM (SELECT v.value::text AS text FROM pg_temp.%%I v ORDER BY v.number) s', t.name)
FROM (SELECT b.oid, 'spelled_' || b.oid AS name FROM bases b WHERE b.typtype <> 'd') t;
