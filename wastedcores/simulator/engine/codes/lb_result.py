"""Results of a load_balance() call, which tables and traces name so (``vocabulary.BALANCE_RESULTS``)."""

NOT_DESIGNATED, BALANCED, NO_QUEUE, PINNED, FAILED, ACTIVE, MOVED = range(7)
