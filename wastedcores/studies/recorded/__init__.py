"""Recordings of real kernels beside replays of the same workload."""
