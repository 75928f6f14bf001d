-- Everything that doctor wants to know of a server, in one row, without special rights.
SELECT
    pg_catalog.current_setting('server_version_num')::int                       AS server_version_num,
    pg_catalog.current_setting('wal_level')                                     AS wal_level,
    pg_catalog.current_setting('max_locks_per_transaction')::int                AS max_locks_per_transaction,
    pg_catalog.current_setting('max_connections')::int                          AS max_connections,
    pg_catalog.current_setting('max_replication_slots')::int                    AS max_replication_slots,
    (SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_replication_slots)      AS used_replication_slots,
    pg_catalog.current_setting('max_wal_senders')::int                          AS max_wal_senders,
    pg_catalog.current_setting('idle_replication_slot_timeout', true)           AS idle_replication_slot_timeout,
    pg_catalog.current_setting('max_slot_wal_keep_size')                        AS max_slot_wal_keep_size,
    current_user::text                                                          AS role,
    (SELECT r.rolreplication OR r.rolsuper
       FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)               AS may_replicate,
    pg_catalog.current_database()::text                                         AS database,
    pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')  AS may_create,
    pg_catalog.clock_timestamp()                                                AS now,
    pg_catalog.current_setting('fsync')                                         AS fsync;
