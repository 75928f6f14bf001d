SELECT alarm, message, next_step FROM lakets.feed_alarms();
