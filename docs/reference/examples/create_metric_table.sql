SELECT lakets.create_metric_table('cpu', ARRAY['region', 'host'], ARRAY['used', 'idle']);
-- => 3
SELECT column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_name = 'cpu' ORDER BY ordinal_position;
-- => time | timestamp with time zone | NO
-- => region | text | NO
-- => host | text | NO
-- => used | double precision | YES
-- => idle | double precision | YES
