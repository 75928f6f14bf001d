SELECT id::text FROM thermocline.batch;
