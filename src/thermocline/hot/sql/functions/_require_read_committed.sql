-- What copies a table or compares it must see what others have committed by the time that it holds the lock; under an older
-- snapshot their rows would be lost.
CREATE OR REPLACE FUNCTION thermocline._require_read_committed(p_what text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'cannot %: the transaction is %, so rows that others have just committed would be missed',
            p_what, upper(current_setting('transaction_isolation'))
            USING HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
    END IF;
END
$$;

COMMENT ON FUNCTION thermocline._require_read_committed(text) IS 'Refuses transactions that are not READ COMMITTED.';
