-- What rows from before a column read in it, by the number of the column in its table. The partitions know it, each for itself:
-- what most of them say. A table that has rows itself is asked too.
SELECT DISTINCT ON (number) number, value
FROM (
    SELECT r.attnum AS number, (l.attmissingval::text::text[])[1] AS value, count(*) AS times
    FROM pg_catalog.pg_attribute r
    JOIN pg_catalog.pg_attribute l ON l.attname = r.attname AND l.atthasmissing AND NOT l.attisdropped
    WHERE r.attrelid = %(table)s AND r.attnum > 0 AND NOT r.attisdropped
      AND (l.attrelid = r.attrelid
           OR EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = l.attrelid AND i.inhparent = r.attrelid))
    GROUP BY 1, 2
) told
ORDER BY number, times DESC, value;
