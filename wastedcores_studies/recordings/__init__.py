"""Judges the replay by recordings of real kernels: each is compared with replays of the same workload."""
