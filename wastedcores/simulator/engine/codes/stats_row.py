"""Which of the three rows has the statistics of which group, counted from the first row of scratch."""

LOCAL, BUSIEST, SPARE = range(
    3
)  # the local group, the busiest one so far, and the one that is being looked at
