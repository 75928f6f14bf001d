-- Keep four days. Nothing is dropped by this call; execute_retention drops, or the command `thermocline retention`.
SELECT lakets.add_retention_policy('requests', '4 days');
-- => 1
SELECT policy_type, drop_after FROM lakets.show_retention_policy('requests');
-- => retention | 4 days

-- One retention policy per table.
SELECT lakets.add_retention_policy('requests', '90 days');
-- error: public.requests has a retention policy already
