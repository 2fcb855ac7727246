"""The scheduler, compiled: arrays in, arrays out.

The folders read top-down as in the kernel: tasks, core, design, balance, fair, events, world.
"""
