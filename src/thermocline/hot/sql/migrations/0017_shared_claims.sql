-- Units that are claimed together: when their worker dies, nobody knows which of them it had begun.
ALTER TABLE thermocline.work_unit ADD COLUMN shared boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN thermocline.work_unit.shared IS
    'Whether the newest claim took others with it. If that claim is lost, it does not count as an attempt, and the next one is for '
    'this unit alone.';
