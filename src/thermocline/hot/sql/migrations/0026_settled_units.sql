-- Work that failed for good is over once the same work was done later.
ALTER TABLE thermocline.work_unit ADD COLUMN settled_by bigint;
COMMENT ON COLUMN thermocline.work_unit.settled_by IS 'The later unit that did what this one, which is failed or dead, was to do.';
