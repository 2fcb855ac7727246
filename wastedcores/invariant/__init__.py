"""The paper's invariant, offline: was a CPU idle while another had threads waiting that it could have run?

Algorithm 2 of the paper ("no core remains idle while another core is overloaded"), exact and streaming: every change
of every runqueue is looked at, not samples of it. Definitions: a CPU is idle with 0 tasks on its runqueue, overloaded
with 2 or more; max(nr_running - 1, 0) tasks wait. A CPU whose runqueue is not known is neither.
"""

from wastedcores.invariant.checking import PERSIST_NS, check
from wastedcores.invariant.result import CHECK_SCHEMA, CheckResult

__all__ = ["CHECK_SCHEMA", "PERSIST_NS", "CheckResult", "check"]
