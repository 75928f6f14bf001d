SELECT lakets.ingest_batch('readings', '[
    {"time": "2026-03-02 11:00:00+00", "sensor": "attic", "celsius": 22.0},
    {"time": "2026-03-02 11:00:00+00", "sensor": "roof"}
]');
-- => 2
SELECT sensor, celsius FROM readings WHERE time = '2026-03-02 11:00:00+00' ORDER BY sensor;
-- => attic | 22
-- => roof | NULL

-- A name that is no column is an error, and nothing of the batch goes in.
SELECT lakets.ingest_batch('readings', '[{"time": "2026-03-02 12:00:00+00", "sensor": "attic", "degrees": 22.0}]');
-- error: cannot ingest into public.readings: it has no column degrees
