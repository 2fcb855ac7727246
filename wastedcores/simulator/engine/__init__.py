"""The scheduler. It changes only the table that holds a replay's state, and runs compiled or as plain Python (jit/plain.py).

The folders can be read top-down, as in the kernel: tasks, core, design, balance, fair, events, world. The folder ``codes/``
gives names to the integers that appear in the table and in the log. ``classes.py`` says of which functions each kernel consists.

Functions have the names of the kernel functions that they model, and their docstrings name the version. Parameters have the
kernel's names, which are explained only here: ``k`` is the kernel (its globals, and the table), ``rq`` the runqueue of a CPU,
``q`` a queue of entities (``struct cfs_rq``), ``se`` a scheduling entity, ``p`` a task, ``tg`` a task group, ``sd`` a scheduling
domain of one CPU, and ``env`` one attempt to balance (``struct lb_env``). Times are integer ns of simulated time, jiffies are
ticks since the machine's time 0, and loads are the kernel's integers (1024 for a task of nice 0 that always runs).
"""
