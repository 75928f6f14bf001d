-- Values are written as the stream writes them, whatever the session is set to; until the end of the transaction.
SELECT pg_catalog.set_config('timezone', 'UTC', true), pg_catalog.set_config('bytea_output', 'hex', true),
       pg_catalog.set_config('extra_float_digits', '1', true), pg_catalog.set_config('intervalstyle', 'iso_8601', true);
