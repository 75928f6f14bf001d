-- feed_status also tells what is left to be copied, so it is made anew.

DROP FUNCTION IF EXISTS lakets.feed_status();
