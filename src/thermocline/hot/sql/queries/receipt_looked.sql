UPDATE thermocline.receipt
SET lake_checked_metadata = %(metadata)s, lake_checked_at = pg_catalog.clock_timestamp()
WHERE id = %(receipt)s;
