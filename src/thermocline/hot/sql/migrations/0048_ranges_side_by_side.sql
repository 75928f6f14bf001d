-- What a range that comes back rests on is the position up to which it is settled, and no longer the file of its trap, which is another
-- one as soon as a neighbour has come back.
DROP FUNCTION IF EXISTS thermocline._stage_range(int, timestamptz);
DROP FUNCTION IF EXISTS thermocline._attach_staged(int, timestamptz, oid, oid, pg_lsn, bigint, jsonb);
