-- The lake was looked at and did not hold it, or could not be read.
UPDATE thermocline.receipt SET lake_checked_at = NULL, lake_checked_metadata = NULL WHERE id = %(receipt)s;
