-- Lets it go on; false if it was not stopped.
WITH freed AS (
    DELETE FROM thermocline.work_stop WHERE what = %(what)s RETURNING what
), noted AS (
    INSERT INTO thermocline.audit (action, object, reason) SELECT 'resume_work', f.what, %(why)s FROM freed f
)
SELECT EXISTS (SELECT FROM freed);
