-- One installer at a time; let go at the end of the transaction. Nobody is waited for without end.
SELECT pg_catalog.set_config('lock_timeout', '30s', true),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('thermocline.install', 0));
