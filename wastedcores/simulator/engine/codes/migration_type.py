"""What is to move (``enum migration_type``, v6.12). Misfit tasks do not occur on machines whose CPUs are alike."""

BY_LOAD, BY_UTIL, BY_TASK = range(3)
