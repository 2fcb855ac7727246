"""How the rows of a decision are logged: in records that have a time, a kind, and ``PER_RECORD`` values."""

PER_RECORD = 6
#: the number of values of a call of load_balance(), and of each group
WIDTH, GROUP_WIDTH = 18, 12
#: v6.12: the first bits in Decision.prefer_sibling of what is to move (LbEnv.moves) and of why nothing is (codes/balanced.py)
MOVES_SHIFT, REASON_SHIFT = 1, 3
