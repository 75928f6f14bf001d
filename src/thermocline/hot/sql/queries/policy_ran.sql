-- A policy of a table has been carried out, whatever came of it.
UPDATE lakets._policy_registry p SET last_run_at = pg_catalog.clock_timestamp()
WHERE p.chronotable_id = lakets._chronotable_id(%(table)s, %(schema)s) AND p.policy_type IN (%(kind)s, 'tiered_retention');
