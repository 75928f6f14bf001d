-- Before anything of a batch is in the lake: only the owner may, and its id is known here from now on.
INSERT INTO thermocline.batch (id, epoch, chronotable_id, end_lsn)
SELECT %(id)s, epoch, %(table)s, %(end)s::pg_lsn FROM thermocline.stream WHERE epoch = %(epoch)s
RETURNING id;
