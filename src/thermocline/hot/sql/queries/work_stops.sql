SELECT s.what, s.why, s.who, s.at FROM thermocline.work_stop s ORDER BY s.what;
