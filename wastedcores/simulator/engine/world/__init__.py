"""The table that holds the whole state of a replay, and the codes that appear in it."""
