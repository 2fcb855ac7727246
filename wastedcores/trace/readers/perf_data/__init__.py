"""``perf.data``, decoded without perf."""
