-- The value at the latest time of a group, for values of any type. An array is refused: PostgreSQL has no array of arrays,
-- and the state would be one.
CREATE OR REPLACE AGGREGATE lakets.last(p_value anyelement, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._last_step,
    STYPE       = anyarray,
    COMBINEFUNC = lakets._last_of_two,
    FINALFUNC   = lakets._value_of
);

COMMENT ON AGGREGATE lakets.last(anyelement, timestamptz) IS
    'p_value of the row with the latest p_time, also when it is NULL. Rows without a time do not count; of rows with '
    'the same time the one that is seen first does. NULL if there is no row.';
