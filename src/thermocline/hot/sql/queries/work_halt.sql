-- Stops a kind of work, what is destructive, or everything; false if it was stopped already.
WITH stopped AS (
    INSERT INTO thermocline.work_stop (what, why) VALUES (%(what)s, %(why)s) ON CONFLICT (what) DO NOTHING RETURNING what
), noted AS (
    INSERT INTO thermocline.audit (action, object, reason) SELECT 'stop_work', s.what, %(why)s FROM stopped s
)
SELECT EXISTS (SELECT FROM stopped);
