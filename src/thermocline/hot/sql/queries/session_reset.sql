-- A session as new, for whoever is next: what DISCARD ALL does, but what was prepared stays, because
-- the driver relies on it, and a role that is set at login is as it was then.
CLOSE ALL;
SET SESSION AUTHORIZATION DEFAULT;
RESET ROLE;
RESET ALL;
UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all();
DISCARD TEMP;
DISCARD SEQUENCES;
