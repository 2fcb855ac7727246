"""ftrace text, trace-cmd report, perf script and trace.dat: lines of one event each."""
