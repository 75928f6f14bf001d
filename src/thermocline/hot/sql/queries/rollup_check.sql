-- The first differences between a RollUp and its source, each with how many there are in all.
SELECT count(*) OVER (), c.* FROM lakets.check_rollup(%s, %s, %s) c LIMIT %s;
