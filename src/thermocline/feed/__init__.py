"""The change feed: from the write-ahead log through Spark into the lake, each change once and in order."""
