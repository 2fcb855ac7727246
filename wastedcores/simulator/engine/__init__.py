"""The compiled scheduler: it takes one array, the world's table, and changes it.

The folders can be read top-down, as in the kernel: tasks, core, design, balance, fair, events, world. The folder codes
names the integers that appear in the table and in the log.
"""
