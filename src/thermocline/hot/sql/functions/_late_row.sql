-- Refuses a row for a range that has left PostgreSQL. Runs with the rights of whoever writes, and needs none of them.
CREATE OR REPLACE FUNCTION thermocline._late_row() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'a row of % is too late: its rows from % to % have left PostgreSQL',
        pg_partition_root(TG_RELID), TG_ARGV[0], TG_ARGV[1]
        USING HINT = 'That range takes no rows any more. Keep chunks for longer than rows may be late.';
END
$$;

COMMENT ON FUNCTION thermocline._late_row() IS
    'Trigger of every trap: an error that names the table, the range and the way out.';
