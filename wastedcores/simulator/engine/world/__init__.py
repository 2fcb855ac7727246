"""The table that holds the whole state of a replay: one module per kind of row, which names the columns."""
