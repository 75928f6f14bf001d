SELECT lakets.enable_lvc('requests', ARRAY['host'], ARRAY['served']);
SELECT * FROM lakets.lvc_stats();
-- => public.requests | public._lvc_requests | 2 | host | served | t
