-- One trap for neighbouring ranges, if nobody is in the way.
SELECT thermocline._merge_traps(%(table)s);
