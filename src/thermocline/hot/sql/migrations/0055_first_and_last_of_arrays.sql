-- first() and last() take arrays, too: by an aggregate of their own, and PostgreSQL can choose between the two only if the other
-- one is for what is no array.

DROP AGGREGATE IF EXISTS lakets.first(anyelement, timestamptz);
DROP AGGREGATE IF EXISTS lakets.last(anyelement, timestamptz);
DROP FUNCTION IF EXISTS lakets._first_step(anyarray, anyelement, timestamptz);
DROP FUNCTION IF EXISTS lakets._last_step(anyarray, anyelement, timestamptz);
