-- The value at the latest time of a group, for values of any type. Arrays have an aggregate of their own: the state of the others is an
-- array with the value in it, and PostgreSQL has no array of arrays.
CREATE OR REPLACE AGGREGATE lakets.last(p_value anynonarray, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._last_step,
    STYPE       = anyarray,
    COMBINEFUNC = lakets._last_of_two,
    FINALFUNC   = lakets._value_of
);

COMMENT ON AGGREGATE lakets.last(anynonarray, timestamptz) IS
    'p_value of the row with the latest p_time, also when it is NULL. Rows without a time do not count; of rows with '
    'the same time the one that is seen first does. NULL if there is no row.';

CREATE OR REPLACE AGGREGATE lakets.last(p_value anyarray, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._last_array_step,
    STYPE       = text[],
    COMBINEFUNC = lakets._last_array_of_two,
    FINALFUNC   = lakets._array_of,
    FINALFUNC_EXTRA
);

COMMENT ON AGGREGATE lakets.last(anyarray, timestamptz) IS
    'p_value of the row with the latest p_time, for arrays; otherwise as for other values.';
