-- Work of a class rests while the database takes longer than this to answer it.

ALTER TABLE thermocline.work_budget
    ADD COLUMN slow_after interval DEFAULT interval '1 second' CHECK (slow_after > interval '0');
COMMENT ON COLUMN thermocline.work_budget.slow_after IS
    'Work rests before its next step while the database takes longer than this to draw from the bucket; NULL: it never does.';
