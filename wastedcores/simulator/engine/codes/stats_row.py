"""The rows with the statistics of three scheduling groups, counted from row ``k.scratch``."""

#: the local group, the busiest group so far, and the group that is being examined
LOCAL, BUSIEST, SPARE = range(3)
