"""Results of a load_balance() call, in the order of ``vocabulary.BALANCE_RESULTS``."""

NOT_DESIGNATED, BALANCED, NO_QUEUE, PINNED, FAILED, ACTIVE, MOVED = range(7)
