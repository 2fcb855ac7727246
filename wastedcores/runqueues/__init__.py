"""Runqueues over time, rebuilt from a trace: who ran, who waited, and which CPUs each task may use."""
