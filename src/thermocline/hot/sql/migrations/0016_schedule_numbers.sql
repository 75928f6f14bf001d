-- The numbers up to 100 are kept for the schedules that come with jobs; those that people make begin after them.
ALTER TABLE thermocline.schedule ALTER COLUMN id SET START WITH 101 RESTART;
