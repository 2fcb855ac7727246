"""Measures speed and size, and compares with peers in the same run. `make bench` runs every ``bench_*.py``."""
