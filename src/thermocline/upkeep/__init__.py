"""Upkeep of the lake: compaction, tombstones, retention, expiration; each a pure plan and its execution."""
