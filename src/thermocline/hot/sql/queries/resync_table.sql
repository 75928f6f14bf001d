SELECT lakets.resync(%(table)s, %(schema)s, %(chunk)s);
