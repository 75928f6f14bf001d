-- What the admin role was given outside of our schemas. The roles themselves are the server's, and other databases may use them.
DO $$
BEGIN
    IF pg_catalog.to_regrole('lakets_admin') IS NOT NULL THEN
        EXECUTE pg_catalog.format('REVOKE CREATE ON DATABASE %I FROM lakets_admin', pg_catalog.current_database());
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        NULL;
END
$$;
