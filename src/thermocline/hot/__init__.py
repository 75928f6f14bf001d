"""The hot tier: embedded or external PostgreSQL, the SQL installed in it, every SQL statement as a file."""
