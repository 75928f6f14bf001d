-- Requests from one day to the next. On the fourth day the server was restarted and counted from nought.
SELECT served, lakets.delta(served, lag(served) OVER (ORDER BY time)) AS grown
FROM requests WHERE host = 'web-1' ORDER BY time;
-- => 100 | NULL
-- => 250 | 150
-- => 400 | 150
-- => 60 | 60
-- => 90 | 30
-- => 190 | 100
SELECT lakets.delta(60, 400, p_handle_resets => false);
-- => -340
