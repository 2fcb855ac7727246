"""What stays the same when the weight of an entity changes: its lag, its place, or its distance from the average."""

LAG, PLACE, AVERAGE = range(3)
