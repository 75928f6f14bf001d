-- Proven and flagged after two days, dropped after four. The table is not in the lake yet, so nothing goes.
SELECT lakets.add_tiered_retention_policy('requests', '2 days', '4 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 1
SELECT policy_type, tier_after, drop_after FROM lakets.show_retention_policy('requests');
-- => tiered_retention | 2 days | 4 days

-- The proof comes first.
SELECT lakets.add_tiered_retention_policy('readings', '90 days', '7 days');
-- error: tier_after (90 days) of public.readings must be shorter than drop_after (7 days)
