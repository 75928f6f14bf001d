-- A trap that somebody drops by hand may have had late rows. How often that was found of a range is counted, so that whoever has loaded it
-- from the lake meanwhile learns that it may lack some.
ALTER TABLE thermocline.dropped_range ADD COLUMN traps_lost int NOT NULL DEFAULT 0;
COMMENT ON COLUMN thermocline.dropped_range.traps_lost IS
    'How often its trap was found to be gone, with whatever late rows it had; those are in the stream.';
COMMENT ON COLUMN thermocline.dropped_range.settled_position IS
    'Of a range that takes late rows: the lake has all that was committed up to here, and what came later is exactly what the trap holds. '
    'So it is read as the lake up to here, and the rows of the trap. NULL: its trap has never taken a row, or was dropped by hand, and all '
    'that the lake has of the range counts.';
