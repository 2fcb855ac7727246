"""Judges the replay by recordings of real kernels: each recording is compared with replays of the same workload."""
