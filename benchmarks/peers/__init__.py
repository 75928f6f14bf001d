"""Other ways of doing the same, to hold the feed and the RollUps against: see README.md beside this."""
