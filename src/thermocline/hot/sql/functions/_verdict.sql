-- What becomes of a chunk, and by what reason: the one place where that is decided for people. Pure: dues, proof and obstacle are passed
-- in. p_code is the first thing against dropping it, p_failed why its last comparison failed, if it did.
CREATE OR REPLACE FUNCTION thermocline._verdict(
    p_state    text,
    p_begun    boolean,
    p_drop_due timestamptz,
    p_tier_due timestamptz,
    p_now      timestamptz,
    p_code     text,
    p_failed   text
) RETURNS TABLE (verdict text, reason text)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT v.verdict,
           CASE v.verdict
               WHEN 'finish' THEN 'begun'
               WHEN 'drop' THEN 'due'
               WHEN 'would drop' THEN coalesce(p_failed, p_code)
               WHEN 'would tier' THEN coalesce(p_failed, 'due')
               WHEN 'stays' THEN CASE WHEN p.provable THEN p_failed ELSE p_code END
               ELSE CASE WHEN p_state OPERATOR(pg_catalog.=) 'tiered' THEN 'proven'
                         WHEN p_drop_due IS NULL AND p_tier_due IS NULL THEN 'no_policy'
                         ELSE 'not_due' END
           END
    FROM (SELECT p_code OPERATOR(pg_catalog.=) ANY (ARRAY['lake_unchecked', 'lake_changed']) AS looked_at,
                 -- What a new receipt can mend: a run makes one first.
                 p_code OPERATOR(pg_catalog.=) ANY (ARRAY['no_receipt', 'receipt_stale', 'changed_since_receipt', 'rewritten',
                                                          'columns_changed']) AS provable,
                 p_drop_due OPERATOR(pg_catalog.<=) p_now AS to_drop,
                 p_tier_due OPERATOR(pg_catalog.<=) p_now AND p_state OPERATOR(pg_catalog.=) 'active' AS to_tier) p,
         LATERAL (SELECT CASE
             WHEN p_begun THEN 'finish'
             WHEN NOT coalesce(p.to_drop OR p.to_tier, false) THEN 'keep'
             WHEN p_code IS NOT NULL AND NOT p.looked_at AND NOT p.provable THEN 'stays'
             WHEN p.provable AND p_failed OPERATOR(pg_catalog.=) 'content_differs' THEN 'stays'
             WHEN p.to_drop AND p.provable THEN 'would drop'
             WHEN p.to_drop THEN 'drop'
             ELSE 'would tier' END AS verdict) v;
END;

COMMENT ON FUNCTION thermocline._verdict(text, boolean, timestamptz, timestamptz, timestamptz, text, text) IS
    'finish, drop, would drop, would tier, stays or keep, and the code of the reason.';
