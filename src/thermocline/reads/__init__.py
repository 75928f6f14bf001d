"""One answer from both tiers: resident ranges from PostgreSQL, the rest from the lake, each row once."""
