"""The paper's invariant, checked offline: was a CPU idle while another had waiting threads that it could have run?

This is Algorithm 2 of the paper ("no core remains idle while another core is overloaded"). It is exact and streaming: it
looks at every change of every runqueue and not at samples. A CPU is idle with 0 tasks on its runqueue and overloaded with
2 or more; max(nr_running - 1, 0) tasks wait there. A CPU whose runqueue is not known is neither idle nor overloaded.
"""

from wastedcores.invariant.checking import PERSIST_NS, check
from wastedcores.invariant.result import CHECK_SCHEMA, CheckResult
from wastedcores.invariant.scoring import SCORE_SCHEMA, score
from wastedcores.invariant.who import who_took

__all__ = [
    "CHECK_SCHEMA", "PERSIST_NS", "SCORE_SCHEMA", "CheckResult", "check", "score", "who_took",
]  # fmt: skip
