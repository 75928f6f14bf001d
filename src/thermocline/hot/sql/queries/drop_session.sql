-- A worker's session: what it is told at once is true whatever the role's own settings say.
SELECT pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
       pg_catalog.set_config('timezone', 'UTC', false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
       pg_catalog.set_config('statement_timeout', '0', false),
       pg_catalog.set_config('idle_in_transaction_session_timeout', '0', false),
       pg_catalog.set_config('lock_timeout', %(lock_timeout)s, false);
