"""The scheduler: it changes one array, the world's table. It runs compiled or as plain Python (wastedcores/jit/plain.py).

The folders can be read top-down, as in the kernel: tasks, core, design, balance, fair, events, world. The folder codes
names the integers that appear in the table and in the log. ``classes.py`` says which functions each kernel consists of.

Functions have the names of the kernel functions that they model, and their docstrings name the version. A parameter has the
kernel's name and is not explained again at each function: ``k`` is the kernel (its globals, and the table), ``rq`` the
runqueue of a CPU, ``q`` a queue of entities (``struct cfs_rq``), ``se`` a scheduling entity, ``p`` a task, ``tg`` a task
group, ``sd`` a scheduling domain of one CPU, and ``env`` one attempt to balance (``struct lb_env``). Times are integer ns of
simulated time, jiffies are ticks since the machine's time 0, and loads are the kernel's integers (1024 for a task of nice 0
that always runs).
"""
