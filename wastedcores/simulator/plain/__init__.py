"""The engine as plain Python: to step through it, and to replace its decisions and modules by your own."""
