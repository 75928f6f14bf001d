-- Sensors that send what they have every half an hour: none of it is late, and leaves no marks.
SELECT lakets.set_late_after('readings', '40 minutes');
SELECT table_name, late_after FROM lakets._chronotable_registry WHERE table_name = 'readings';
-- => readings | 00:40:00
SELECT lakets.set_late_after('readings', '0');
-- error: cannot take rows of public.readings for late after 00:00:00
