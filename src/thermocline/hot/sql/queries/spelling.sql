-- How the server is asked what values of a type read: a table of the session's own for them, how they get there, and the question.
-- The answer is all texts in one, and the length of each. No row if there is no such type.
SELECT pg_catalog.format('CREATE TEMP TABLE IF NOT EXISTS %%I (number int8, value %%s) ON COMMIT DELETE ROWS', t.name, pg_catalog.format_type(t.oid, -1)),
       pg_catalog.format('COPY pg_temp.%%I FROM STDIN (FORMAT binary)', t.name),
       pg_catalog.format(
           'SELECT pg_catalog.string_agg(s.text, ''''), pg_catalog.array_agg(pg_catalog.octet_length(pg_catalog.convert_to(s.text, ''UTF8'')))'
           ' FROM (SELECT v.value::text AS text FROM pg_temp.%%I v ORDER BY v.number) s', t.name)
FROM (SELECT p.oid, 'spelled_' || p.oid AS name FROM pg_catalog.pg_type p WHERE p.oid = %(type)s::oid) t;
