-- Before when nobody compares a chunk again by himself that was written to since its newest receipt: at once until it has had three within a
-- day, then the later the more, from five minutes to a day. One that is written to again and again is compared now and then.
-- p_modified is when the stream last told of a write to it; NULL where there is nothing to wait for.
CREATE OR REPLACE FUNCTION thermocline._prove_again(p_chunk oid, p_modified timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT max(r.made_at) + least(interval '1 day', interval '5 minutes' * power(2, least(count(*), 20) - 3))
    FROM thermocline.receipt r
    WHERE r.chunk_oid = p_chunk AND r.made_at > clock_timestamp() - interval '1 day'
    HAVING count(*) > 2 AND max(r.made_at) < p_modified
$$;

COMMENT ON FUNCTION thermocline._prove_again(oid, timestamptz) IS
    'Before when a chunk that keeps changing is not compared again by itself; NULL if it need not wait.';
