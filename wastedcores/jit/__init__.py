"""How compiled functions are declared, cached and linked; every ``*_jit.py`` uses this."""
