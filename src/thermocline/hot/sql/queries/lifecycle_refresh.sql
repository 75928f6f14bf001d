-- RollUps take in what may leave.
SELECT lakets._refresh_before_drop(lakets._chronotable_id(%(table)s, %(schema)s), pg_catalog.now());
