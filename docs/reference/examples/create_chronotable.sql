-- A table with rows in it. They move into chunks of a week, and the table is asked and written to as before.
CREATE TABLE doors (opened_at timestamptz, door int);
INSERT INTO doors VALUES ('2026-03-02 08:15:00+00', 1), ('2026-03-10 09:30:00+00', 2);
SELECT lakets.create_chronotable('doors', 'opened_at');
-- => 3
SELECT tableoid::regclass AS chunk, door FROM doors ORDER BY opened_at;
-- => doors_20260228_000000 | 1
-- => doors_20260307_000000 | 2

-- Once is enough.
SELECT lakets.create_chronotable('doors', 'opened_at', p_if_not_exists => true);
-- notice: public.doors is a ChronoTable already, left as it is
-- => 3

-- What cannot be converted is left alone, with every reason.
CREATE TABLE notes (written text);
SELECT lakets.create_chronotable('notes', 'written');
-- error: cannot make public.notes a ChronoTable: its column written is of type text, not timestamptz, timestamp or date
