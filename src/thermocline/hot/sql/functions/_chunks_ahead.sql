-- How many chunks there should be beyond the one of now: three, and enough for a day without maintenance, up to 48.
CREATE OR REPLACE FUNCTION lakets._chunks_ahead(p_chunk_interval interval) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT greatest(3, least(48, ceil(86400 / extract(epoch FROM p_chunk_interval))::int))
$$;

COMMENT ON FUNCTION lakets._chunks_ahead(interval) IS 'How many future chunks of this length a ChronoTable keeps ready.';
