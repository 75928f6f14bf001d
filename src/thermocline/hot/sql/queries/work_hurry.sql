-- The open unit that is the same: if it waits, it waits for nothing any more, neither for its time nor for its window.
WITH same AS (
    SELECT u.id, u.status FROM thermocline.work_unit u
    WHERE u.kind = %(kind)s AND u.chronotable_id IS NOT DISTINCT FROM %(table)s AND u.scope = '' AND u.status IN ('pending', 'claimed')
    FOR UPDATE
), hurried AS (
    UPDATE thermocline.work_unit u SET schedule_id = NULL, not_before = least(u.not_before, pg_catalog.now())
    FROM same s WHERE u.id = s.id AND u.status = 'pending'
)
SELECT s.id FROM same s;
