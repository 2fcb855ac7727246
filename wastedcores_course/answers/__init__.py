"""The right answers and the common mistakes of each lab. A grader leaves this folder out where students' code runs."""
