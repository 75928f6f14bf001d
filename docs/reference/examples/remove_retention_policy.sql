SELECT lakets.add_retention_policy('requests', '4 days');
-- => 1
SELECT lakets.remove_retention_policy('requests');
SELECT * FROM lakets.show_retention_policy('requests');
-- => no rows
