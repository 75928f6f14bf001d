"""Other ways of doing the same, to hold the feed, the RollUps and the work units against: see README.md beside this."""
