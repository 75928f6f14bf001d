-- Options as a catalog has them, {fillfactor=70}, as the list that WITH and SET take.
CREATE OR REPLACE FUNCTION thermocline._option_list(p_options text[]) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(format('%I = %L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ') FROM unnest(p_options) o
$$;

COMMENT ON FUNCTION thermocline._option_list(text[]) IS 'Options of a catalog as a list for WITH or SET; NULL if there are none.';
