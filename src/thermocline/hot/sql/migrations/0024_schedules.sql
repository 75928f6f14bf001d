-- Some work is for the whole database: it has no schedules of single tables.
ALTER TABLE thermocline.schedule ADD COLUMN by_table boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN thermocline.schedule.by_table IS 'Whether the work is for one table at a time, or for the whole database.';
DELETE FROM thermocline.schedule WHERE kind = 'prune' AND chronotable_id IS NOT NULL;
UPDATE thermocline.schedule SET by_table = false WHERE kind = 'prune';
ALTER TABLE thermocline.schedule ADD CONSTRAINT schedule_by_table CHECK (by_table OR chronotable_id IS NULL);

-- Longer than a year is a mistake, and what no calendar can add to now would stop whoever computes it.
UPDATE thermocline.schedule SET every = '366 days' WHERE every > interval '366 days';
ALTER TABLE thermocline.schedule ADD CONSTRAINT schedule_often_enough CHECK (every <= interval '366 days');
