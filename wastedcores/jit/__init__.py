"""Compilation: the decorators that every ``*_jit.py`` uses, the cache of machine code, and how compiled functions are linked."""

#: columns of the world's table; a power of two would make the same column of all rows compete for a few cache lines
TABLE_WIDTH = 136
