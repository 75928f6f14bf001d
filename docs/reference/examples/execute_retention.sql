-- Two days ended at least four days ago. The table is not synced, so they go outright.
SELECT lakets.add_retention_policy('requests', '4 days');
-- => 1
SELECT lakets.execute_retention('requests');
-- => 2

-- With tiered retention, and in any synced table, what the lake is not known to have stays.
SELECT lakets.remove_retention_policy('requests');
SELECT lakets.add_tiered_retention_policy('requests', '1 day', '3 days');
-- notice: public.requests is not synced to the lake, so none of its chunks is tiered yet
-- => 2
SELECT lakets.execute_retention('requests');
-- notice: public.requests_... stays: its table is not synced, so the lake does not have its rows
-- => 0

-- By force it goes all the same, and the audit remembers that.
SELECT lakets.execute_retention('requests', p_force => true);
-- => 1
SELECT forced, count(*) FROM thermocline.audit GROUP BY forced ORDER BY forced;
-- => f | 2
-- => t | 1
