-- Makes the real-time view of a RollUp: what is materialised, what was changed since computed anew, and the source from the
-- watermark on, by the caller's query if one is given. Names in that are looked up as the caller would.
CREATE OR REPLACE FUNCTION lakets.create_rollup_view(p_name text, p_raw_query text DEFAULT NULL) RETURNS void
LANGUAGE sql
RETURN lakets._create_rollup_view(p_name, p_raw_query, pg_catalog.current_setting('search_path'));

COMMENT ON FUNCTION lakets.create_rollup_view(text, text) IS
    'Makes the real-time view of a RollUp, by the given query of the source above its watermark, or a generated one.';
