-- The value at the earliest time of a group, for values of any type. Arrays have an aggregate of their own: the state of the others is an
-- array with the value in it, and PostgreSQL has no array of arrays.
CREATE OR REPLACE AGGREGATE lakets.first(p_value anynonarray, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._first_step,
    STYPE       = anyarray,
    COMBINEFUNC = lakets._first_of_two,
    FINALFUNC   = lakets._value_of
);

COMMENT ON AGGREGATE lakets.first(anynonarray, timestamptz) IS
    'p_value of the row with the earliest p_time, also when it is NULL. Rows without a time do not count; of rows with '
    'the same time the one that is seen first does. NULL if there is no row.';

CREATE OR REPLACE AGGREGATE lakets.first(p_value anyarray, p_time timestamptz) (
    PARALLEL    = SAFE,
    SFUNC       = lakets._first_array_step,
    STYPE       = text[],
    COMBINEFUNC = lakets._first_array_of_two,
    FINALFUNC   = lakets._array_of,
    FINALFUNC_EXTRA
);

COMMENT ON AGGREGATE lakets.first(anyarray, timestamptz) IS
    'p_value of the row with the earliest p_time, for arrays; otherwise as for other values.';
