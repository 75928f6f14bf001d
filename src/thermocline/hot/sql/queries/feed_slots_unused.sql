-- The feed's slot, if there is one; NULL instead of its name while a feed owns it or it is in use.
SELECT CASE WHEN NOT r.active
             AND pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('thermocline feed', 0))
            THEN r.slot_name::text END
FROM thermocline.stream s JOIN pg_catalog.pg_replication_slots r ON r.slot_name = s.slot_name;
