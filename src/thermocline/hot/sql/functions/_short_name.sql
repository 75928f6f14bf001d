-- A name made of a table's with something before and after it, within PostgreSQL's 63 bytes. A table's name that is too
-- long for that is cut and told apart by a hash, so that two long names never meet.
CREATE OR REPLACE FUNCTION lakets._short_name(p_before text, p_name text, p_after text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_base text := p_name;
    v_room int  := 63 - octet_length(p_before) - octet_length(p_after);
BEGIN
    IF octet_length(v_base) > v_room THEN
        WHILE octet_length(v_base) > v_room - 9 LOOP
            v_base := left(v_base, -1);
        END LOOP;
        v_base := v_base || '_' || left(md5(p_name), 8);
    END IF;
    RETURN p_before || v_base || p_after;
END
$$;

COMMENT ON FUNCTION lakets._short_name(text, text, text) IS 'p_before, p_name and p_after as one name of at most 63 bytes.';
