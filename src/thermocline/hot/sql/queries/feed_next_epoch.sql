UPDATE thermocline.stream SET epoch = pg_catalog.nextval('thermocline.feed_epoch') RETURNING epoch;
