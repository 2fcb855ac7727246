"""The integer codes that stand in the columns of the table and in the log, one module per column."""
