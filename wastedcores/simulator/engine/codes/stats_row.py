"""Which of the three rows has the statistics of which group, counted from the first row of scratch."""

#: the local group, the busiest one so far, and the one that is being looked at
LOCAL, BUSIEST, SPARE = range(3)
