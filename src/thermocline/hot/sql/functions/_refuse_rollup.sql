-- The one way in which a RollUp is refused.
CREATE OR REPLACE FUNCTION thermocline._refuse_rollup(p_name text, p_reasons text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'cannot make the RollUp %: %', coalesce(p_name, 'without a name'), array_to_string(p_reasons, '; ')
        USING HINT = 'Nothing was made. A RollUp is SELECT time_bucket(interval, time) AS bucket, keys, aggregates FROM one'
                     ' ChronoTable or RollUp GROUP BY bucket and keys.';
END
$$;

COMMENT ON FUNCTION thermocline._refuse_rollup(text, text[]) IS 'Raises the error that tells why a RollUp is refused.';
