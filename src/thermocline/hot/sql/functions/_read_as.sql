-- Tells the feed how to read the changes of a mirror that follow in this transaction: as they are ('change'), as the old and the new
-- rows of an UPDATE ('update'), or not at all ('nothing').
CREATE OR REPLACE FUNCTION thermocline._read_as(p_chronotable_id int, p_as text) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT thermocline._tell(jsonb_build_object('event', 'mirror', 'chronotable', p_chronotable_id, 'as', p_as));
$$;

COMMENT ON FUNCTION thermocline._read_as(int, text) IS 'Tells the feed how to read what a mirror is written from here on.';

REVOKE ALL ON FUNCTION thermocline._read_as(int, text) FROM PUBLIC;
