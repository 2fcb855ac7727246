"""What must be fast, and against whom. `make bench` runs every ``bench_*.py`` and writes RESULTS.md."""
