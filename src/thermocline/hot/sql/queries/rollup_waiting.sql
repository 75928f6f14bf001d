-- How many buckets of a RollUp the next refresh computes anew below its watermark.
SELECT count(DISTINCT p.bucket) FROM lakets._rollup_pending(thermocline._rollup_id(%(name)s)) p;
