-- Asks a query whether something is wrong: each row that it returns is an alert. It sees what its caller sees.
CREATE OR REPLACE FUNCTION lakets.alert_check(
    p_name     text,
    p_query    text,
    p_severity text DEFAULT 'warning'
) RETURNS TABLE (alert_name text, severity text, fired_at timestamptz, alert_data jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT a.alert_name, a.severity, a.fired_at, a.alert_data
    FROM lakets._alert_rows(p_name, p_query, p_severity, pg_catalog.current_setting('search_path')) a;
END;

COMMENT ON FUNCTION lakets.alert_check(text, text, text) IS
    'One alert per row of p_query, with the row as JSON; no rows mean that all is well.';
