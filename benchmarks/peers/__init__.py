"""Other ways of reading the same changes, to hold the feed against: see README.md beside this."""
