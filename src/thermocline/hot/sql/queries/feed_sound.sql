-- Tables of which every chunk is covered now: what the history has of them so far is everything. Each is written down now and then only.
UPDATE thermocline.synced_table s SET sound_lsn = s.committed_lsn, sound_at = s.current_at
WHERE s.status = 'STREAMING' AND s.committed_lsn > coalesce(s.sound_lsn, '0/0')
  AND s.current_at > coalesce(s.sound_at, '-infinity') + interval '5 seconds'
  AND NOT EXISTS (SELECT FROM thermocline.uncovered_part u WHERE u.id = s.chronotable_id);
