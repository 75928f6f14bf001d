-- Whether a table goes to the lake.
SELECT EXISTS (SELECT FROM thermocline.synced_table s WHERE s.chronotable_id = lakets._chronotable_id(%(table)s, %(schema)s)
                 AND s.status <> 'TERMINATED');
