SELECT lakets.tier_chunk(%(chunk)s);
