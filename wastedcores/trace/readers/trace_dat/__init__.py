"""``trace.dat``, decoded without trace-cmd."""
