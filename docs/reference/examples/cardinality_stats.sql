SELECT * FROM lakets.cardinality_stats('readings');
-- => sensor | 2 | 7 | 28.57
