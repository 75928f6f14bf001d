-- The value at the earliest time of a group, for values of any type. An array is refused: PostgreSQL has no array of arrays,
-- and the state would be one.
CREATE OR REPLACE AGGREGATE lakets.first(p_value anyelement, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._first_step,
    STYPE       = anyarray,
    COMBINEFUNC = lakets._first_of_two,
    FINALFUNC   = lakets._value_of
);

COMMENT ON AGGREGATE lakets.first(anyelement, timestamptz) IS
    'p_value of the row with the earliest p_time, also when it is NULL. Rows without a time do not count; of rows with '
    'the same time the one that is seen first does. NULL if there is no row.';
