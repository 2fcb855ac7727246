"""Compares recordings of real kernels with replays of the same workloads."""
