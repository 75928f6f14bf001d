-- Refuses a row for a range that has left PostgreSQL. Runs with the rights of whoever writes, and needs none of them.
CREATE OR REPLACE FUNCTION thermocline._late_row() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'a row of % is too late: its rows from % to % have left PostgreSQL',
        pg_partition_root(TG_RELID), TG_ARGV[0], TG_ARGV[1]
        USING HINT = 'Keep chunks for longer than rows may be late, or let late rows in: SELECT lakets.set_late_rows(<table>, ''lake''). To'
                     ' change what has left, `thermocline rehydrate` brings the range back.';
END
$$;

COMMENT ON FUNCTION thermocline._late_row() IS
    'Trigger of every trap: an error that names the table, the range and the way out.';
