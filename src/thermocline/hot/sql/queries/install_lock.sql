-- One installer at a time; let go at the end of the transaction.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('thermocline.install', 0));
