-- The buckets are replaced by what was computed, or it is said that something has changed.
SELECT thermocline._replace_buckets(%(id)s, %(state)s, %(seen)s::pg_snapshot, %(times)s::tstzmultirange, %(query)s, %(reason)s);
