"""The real-time class, SCHED_FIFO and SCHED_RR. It is compiled only for replays in which a program changes its policy."""
