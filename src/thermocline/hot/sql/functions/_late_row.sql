-- Refuses a row for a range that has left PostgreSQL. Runs with the rights of whoever writes, and needs none of them: the trap's arguments say
-- from when to when, and whether the lake has it. Traps of earlier releases do not say the latter.
CREATE OR REPLACE FUNCTION thermocline._late_row() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'a row of % is too late: its rows from % to % have left PostgreSQL',
        pg_partition_root(TG_RELID), TG_ARGV[0], TG_ARGV[1]
        USING HINT = CASE WHEN TG_ARGV[2] = 'nowhere' THEN
                              'They were dropped outright: the lake does not have them, and no chunk is made for them again. Keep chunks for'
                              ' longer than rows may be late, by a retention policy with a longer drop_after.'
                          ELSE
                              'Keep chunks for longer than rows may be late, or let late rows in: SELECT lakets.set_late_rows(<table>,'
                              ' ''lake''). To change what has left, `thermocline rehydrate` brings the range back.' END;
END
$$;

COMMENT ON FUNCTION thermocline._late_row() IS
    'Trigger of every trap: an error that names the table, the range and the way out.';
