"""What a change of weight keeps of an entity: its lag, its place, or its distance from the average."""

LAG, PLACE, AVERAGE = range(3)
