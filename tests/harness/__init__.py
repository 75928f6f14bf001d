"""What tests stand on: a real server, a database per test, one Spark, real sessions, real kills."""
