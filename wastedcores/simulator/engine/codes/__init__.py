"""The integer codes that appear in the table and in the log: one module per kind of code."""
