-- The statements of the document that promises 000, tiering and retention, are taken from. `As printed` stands above what it
-- has letter by letter, remarks aside; the other statements make what that needs, and ask what the document says has come
-- of it. It has no statement about RollUps; what it says of them is asked in the tests of the gate and of RollUps.

CREATE TABLE metrics (time timestamptz NOT NULL, cpu float8);
INSERT INTO metrics SELECT now() - days * interval '1 day', days FROM generate_series(0, 97) days;
SELECT lakets.create_chronotable('metrics', 'time');
-- => 1

-- ---- Tiering ----

-- As printed:
SELECT lakets.add_tiering_policy('metrics', '7 days');
-- notice: public.metrics is not synced to the lake, so none of its chunks is tiered yet
-- => 1

-- Every chunk has a recorded position, none of them ahead of the log.
SELECT bool_and((last_write_lsn <= pg_current_wal_insert_lsn()) IS TRUE) FROM lakets._chunk_metadata;
-- => t

-- Nothing is flagged while the table is not synced, and the status says so.
SELECT lakets.tier_chunk(min(chunk_name)) FROM lakets.show_chunks('metrics');
-- notice: public.metrics_... stays: its table is not synced, so the lake does not have its rows
-- => f
SELECT cdf_status, pending_chunks > 10 AS many_wait, tiered_chunks, caught_up FROM lakets.show_tiering_status('metrics');
-- => NONE | t | 0 | f

-- As printed, in the text:
SELECT lakets.enable_sync('metrics');
-- warning: no feed is running, so nothing of public.metrics reaches the lake yet

-- Nor while nothing streams: what cannot be proven is deferred. The age by itself removes no row.
SELECT table_oid::regclass, status FROM wal2delta.tables;
-- => metrics | SNAPSHOTTING
SELECT lakets.tier_chunk(min(chunk_name)) FROM lakets.show_chunks('metrics');
-- notice: public.metrics_... stays: the feed of its table is SNAPSHOTTING
-- => f
SELECT cdf_status, pending_chunks > 10 AS many_wait, tiered_chunks, caught_up FROM lakets.show_tiering_status('metrics');
-- => SNAPSHOTTING | t | 0 | f
SELECT DISTINCT status FROM lakets._chunk_metadata;
-- => active
SELECT count(*) FROM metrics;
-- => 98

-- ---- Retention ----

-- As printed:
SELECT lakets.add_retention_policy('metrics', '90 days');
-- => 2

-- The table is synced and the chunk that is old enough is not proven, so it stays.
SELECT lakets.execute_retention('metrics');
-- notice: public.metrics_... stays: the feed of its table is SNAPSHOTTING
-- => 0
SELECT count(*) FROM metrics;
-- => 98

-- As printed, in the text: by force it goes, one partition and no other.
SELECT lakets.execute_retention('metrics', p_force => TRUE);
-- => 1
SELECT status, to_regclass(chunk_name) IS NOT NULL AS is_there, count(*) = 1 AS just_one
FROM lakets._chunk_metadata GROUP BY 1, 2 ORDER BY 1 DESC;
-- => dropped | f | t
-- => active | t | f
SELECT count(*) FROM metrics WHERE time > now() - interval '89.5 days';
-- => 90
SELECT forced, count(*) FROM thermocline.audit GROUP BY forced;
-- => t | 1

-- A late row finds its partition, unless that was dropped.
INSERT INTO metrics VALUES (now() - interval '80 days', 0);
INSERT INTO metrics VALUES (now() - interval '97 days', 0);
-- error: a row of public.metrics is too late: its rows from ... to ... have left PostgreSQL

-- Plain retention of a table that is not synced drops outright.
CREATE TABLE unsynced (time timestamptz NOT NULL, cpu float8);
INSERT INTO unsynced SELECT now() - days * interval '1 day', days FROM generate_series(0, 97) days;
SELECT lakets.create_chronotable('unsynced', 'time');
-- => 2
SELECT lakets.add_retention_policy('unsynced', '90 days');
-- => 3
SELECT lakets.execute_retention('unsynced');
-- => 1

-- ---- Tiered retention ----

-- A table has one retention policy.
SELECT lakets.remove_retention_policy('metrics');

-- As printed:
SELECT lakets.add_tiered_retention_policy('metrics',
'7 days', -- flagged, if proven
'90 days'); -- dropped, if proven
-- => 4

SELECT policy_type, tier_after, drop_after FROM lakets.show_retention_policy('metrics');
-- => tiered_retention | 7 days | 90 days
SELECT count(*) FROM metrics WHERE time > now() - interval '89.5 days';
-- => 91

-- The two horizons have an order.
SELECT lakets.remove_retention_policy('unsynced');
SELECT lakets.add_tiered_retention_policy('unsynced', '90 days', '90 days');
-- error: tier_after (90 days) of public.unsynced must be shorter than drop_after (90 days)

-- The intent is enough for the gate: without a sync nothing goes.
SELECT lakets.add_tiered_retention_policy('unsynced', '7 days', '83 days');
-- notice: public.unsynced is not synced to the lake, so none of its chunks is tiered yet
-- => 5
SELECT lakets.execute_retention('unsynced');
-- notice: public.unsynced_... stays: its table is not synced, so the lake does not have its rows
-- => 0
SELECT count(*) FROM unsynced WHERE time > now() - interval '89.5 days';
-- => 90
