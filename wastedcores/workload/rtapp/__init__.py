"""rt-app workload files."""
