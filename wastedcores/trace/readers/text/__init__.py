"""ftrace text, trace-cmd report, perf script: lines of one event each."""
