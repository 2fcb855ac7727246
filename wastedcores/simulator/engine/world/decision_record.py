"""How the rows of a decision are logged: in records of a time, a kind, and ``PER_RECORD`` values."""

PER_RECORD = 6
#: values of the call of load_balance(), and of each group
WIDTH, GROUP_WIDTH = 18, 12
#: v6.12: from these bits of Decision.prefer_sibling on lie what is to move (LbEnv.moves) and why nothing is (codes/balanced.py)
MOVES_SHIFT, REASON_SHIFT = 1, 3
