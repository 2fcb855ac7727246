"""Readers of ftrace text, trace-cmd report and perf script, which have one event per line."""
