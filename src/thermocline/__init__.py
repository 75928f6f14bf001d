"""Thermocline: recent rows hot in PostgreSQL, all of them in an Iceberg lake, nothing dropped unproven."""

__version__ = "0.1.0"
