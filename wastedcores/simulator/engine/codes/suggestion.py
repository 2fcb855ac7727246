"""Outcomes of asking a module and reasons for refusing a suggestion, in the order of ``vocabulary.ANSWERS`` and ``REFUSALS``."""

SILENT, TAKEN, REFUSED = range(3)

#: the moments at which a module is asked are the codes of log_op that are less than this number
MOMENTS = 16

WASTEFUL, IMPOSSIBLE = range(2)
