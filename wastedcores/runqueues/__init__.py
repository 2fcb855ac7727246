"""Runqueues over time, rebuilt from a trace: their lengths, the waiting tasks, and the CPUs that each task may use."""
