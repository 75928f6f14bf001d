-- The schemas, what has been installed into them, and the two Iceberg catalogs.

CREATE SCHEMA lakets;
COMMENT ON SCHEMA lakets IS 'ChronoTables, RollUps, policies and time-series functions: the SQL that people call.';

CREATE SCHEMA thermocline;
COMMENT ON SCHEMA thermocline IS 'Thermocline''s own control tables.';

CREATE TABLE thermocline.migration (
    name       text        PRIMARY KEY,
    sha256     text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.migration IS 'Each run-once SQL file that this database has run, with the hash it had.';

CREATE TABLE thermocline.release (
    singleton    boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    version      text        NOT NULL,
    sha256       text        NOT NULL,
    objects      text[]      NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE thermocline.release IS 'The one release that this database holds, and the objects it is made of.';

CREATE TABLE lakets._version (
    version      text        NOT NULL,
    installed_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    modules      text[]      NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE lakets._version IS 'The version that is installed.';
