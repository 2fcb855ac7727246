"""The real-time class, SCHED_FIFO and SCHED_RR, which only replays compile whose programs change their policy."""
