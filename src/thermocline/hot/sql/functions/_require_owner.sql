-- Whoever decides over a table's chunks is its owner, or a member of the role that is.
CREATE OR REPLACE FUNCTION thermocline._require_owner(p_chronotable_id int) RETURNS void
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT thermocline._require_owner_of(table_oid) FROM lakets._chronotable_registry WHERE id = p_chronotable_id
$$;

COMMENT ON FUNCTION thermocline._require_owner(int) IS 'Refuses whoever does not own a ChronoTable.';
