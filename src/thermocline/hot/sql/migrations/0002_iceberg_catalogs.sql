-- The JDBC catalogs of the lake and of the cold tier, in Iceberg's schema version V1, each in a schema of
-- its own, so that the cold one can be made read-only by ordinary grants. An uninstall keeps a catalog that still
-- lists tables, so they may be here already.

CREATE SCHEMA IF NOT EXISTS thermocline_lake;
COMMENT ON SCHEMA thermocline_lake IS 'Iceberg catalog of the live lake: which table has which newest metadata file.';

CREATE TABLE IF NOT EXISTS thermocline_lake.iceberg_tables (
    catalog_name               varchar(255) NOT NULL,
    table_namespace            varchar(255) NOT NULL,
    table_name                 varchar(255) NOT NULL,
    metadata_location          varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type               varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);

CREATE TABLE IF NOT EXISTS thermocline_lake.iceberg_namespace_properties (
    catalog_name   varchar(255) NOT NULL,
    namespace      varchar(255) NOT NULL,
    property_key   varchar(255) NOT NULL,
    property_value varchar(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
);

CREATE SCHEMA IF NOT EXISTS thermocline_cold;
COMMENT ON SCHEMA thermocline_cold IS 'Iceberg catalog of the cold tier.';

CREATE TABLE IF NOT EXISTS thermocline_cold.iceberg_tables (LIKE thermocline_lake.iceberg_tables INCLUDING ALL);
CREATE TABLE IF NOT EXISTS thermocline_cold.iceberg_namespace_properties (
    LIKE thermocline_lake.iceberg_namespace_properties INCLUDING ALL
);
