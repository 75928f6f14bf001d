-- Temperatures of two sensors on one morning, in chunks of a month.
CREATE TABLE readings (time timestamptz NOT NULL, sensor text NOT NULL, celsius float8);
INSERT INTO readings VALUES
    ('2026-03-02 08:00:00+00', 'attic',  18.0),
    ('2026-03-02 08:20:00+00', 'attic',  18.5),
    ('2026-03-02 08:40:00+00', 'attic',  19.0),
    ('2026-03-02 10:10:00+00', 'attic',  21.5),
    ('2026-03-02 08:00:00+00', 'cellar',  9.5),
    ('2026-03-02 08:30:00+00', 'cellar',  9.0),
    ('2026-03-02 10:00:00+00', 'cellar', 10.0);
SELECT lakets.create_chronotable('readings', 'time', '1 month');
-- => 1

-- What two servers have counted at noon of each of the last six days, in chunks of a day. The first was restarted after
-- three of them, the second has been silent since.
CREATE TABLE requests (time timestamptz NOT NULL, host text NOT NULL, served float8);
INSERT INTO requests
SELECT date_trunc('day', now(), 'UTC') - days_ago * interval '1 day' + interval '12 hours', host, served
FROM (VALUES (6, 'web-1', 100), (5, 'web-1', 250), (4, 'web-1', 400), (3, 'web-1', 60), (2, 'web-1', 90), (1, 'web-1', 190),
             (6, 'web-2',  70), (5, 'web-2', 120), (4, 'web-2', 180)) counted (days_ago, host, served);
SELECT lakets.create_chronotable('requests', 'time', '1 day');
-- => 2
