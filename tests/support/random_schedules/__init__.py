"""Random schedules that a Linux kernel could have made, with the truth about them.

The package is a small model of the kernel's scheduler. It decides with a random generator what a kernel decides by load: which
CPU a woken thread gets, and whether a CPU that becomes idle looks elsewhere for work. Everything else follows the kernel (v6.12;
differences to older releases are named where they matter), so the events are those that ftrace would have recorded. Because the
model knows its own state, it also knows when a CPU was idle while a thread waited that could have run there.

Nothing here reads or imports the package's own code about runqueues and verdicts: a judge that shares the defendant's opinions
would find no fault.

============== ==================================================================
tasks          threads, control groups with a quota, and the scheduling classes
programs       what threads do: run, sleep, wake others, fork, exec, pin
machine        the runqueues, the clock, and ``schedule()``
execution      carries out what the programs ask for
placement      where a woken or new thread is put
balancing      moves between runqueues: newidle, periodic, active, push and pull
bandwidth      the quota of a control group: slices, throttling, periods
affinity       ``sched_setaffinity()``, cpusets, and the stopper that moves a running thread
hotplug        taking a CPU offline and bringing it back
events         the lines that ftrace prints
recording      what a recorder makes of them: losses, CPUs left out, clocks that differ
truth          facts about waste, computed from the log of all states
drawing        a schedule from a seed: features, machine, threads
population     the threads that the features ask for
validity       an independent test of the log of states and of the text
snapshots      what ``wastedcores snapshot`` would have written
judging        a verdict compared with the truth
decidable      whether the evidence fits another truth, too
============== ==================================================================

Times are integers in microseconds, because ftrace prints microseconds.
"""
