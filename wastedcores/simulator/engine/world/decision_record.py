"""How the rows of a decision are logged: in records that have a time, a kind, and ``PER_RECORD`` values."""

PER_RECORD = 6
#: how many values are logged for a call of load_balance(), and how many for each group
WIDTH, GROUP_WIDTH = 18, 12
#: v6.12: Decision.prefer_sibling also holds LbEnv.moves and LbEnv.reason; these are the numbers of their lowest bits
MOVES_SHIFT, REASON_SHIFT = 1, 3
