UPDATE thermocline.plan SET ended_at = pg_catalog.clock_timestamp(), outcome = %(outcome)s WHERE id = %(plan)s;
