"""RollUps computed anew on Spark, from hot plus lake, where PostgreSQL no longer has all of their rows."""
