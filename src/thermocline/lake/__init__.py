"""The lake: Java, jars, the Spark session, the Iceberg catalogs, and reads of what they hold."""
