"""Results of a load_balance() call; ``vocabulary.BALANCE_RESULTS`` has their names in tables and traces."""

NOT_DESIGNATED, BALANCED, NO_QUEUE, PINNED, FAILED, ACTIVE, MOVED = range(7)
