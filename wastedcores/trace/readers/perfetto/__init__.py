"""Perfetto's traces, decoded without its trace processor."""
