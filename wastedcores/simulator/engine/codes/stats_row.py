"""The rows with the statistics of the three groups, counted from the first row of scratch."""

#: the local group, the busiest group so far, and the group that is being examined
LOCAL, BUSIEST, SPARE = range(3)
