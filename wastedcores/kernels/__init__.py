"""Models of Linux versions: which code builds domains and balances load, and which of the four bugs are fixed.

"paper" is a fix as the paper's text describes it, and "patch" is the authors' published patch. They differ: the group
construction patch also lets every CPU balance, and the group imbalance patch picks the last group of the ring (see
docs/scheduler-model.md, section 13). A name is ``vX.Y`` from v3.19 to v7.2, followed by any number of ``+fix`` or
``+fix:patch``, or by ``+all_fixes``. From v5.5 on, a name contains the number of the stable release, as in ``v6.12.107``,
because stable releases change the balancer. The release of a running kernel, as ``uname -r`` prints it, is a name, too:
``6.12.107+deb13-amd64``. :func:`recorded_kernel` finds the model of a kernel that ran, which may be newer than v7.2.

``+fork_wait:1`` and ``+fork_wait:2`` are the two placement strategies of the fork/wait paper, on any of these kernels. They do
not fix any of the four bugs, so ``all_fixes`` does not include them.

Besides Linux there are designs (paper, section 5). ``core`` is a scheduler that keeps every core busy while a thread waits.
In names, it is followed by optimisation modules in the order in which the core asks them: ``core+cache_affinity+power``.
docs/design-mode.md has the rules.
"""

from wastedcores.kernels._parsing import is_release
from wastedcores.kernels.generations import CORE, FIXES, GENERATIONS, MAINLINE, MODULES, PRESETS
from wastedcores.kernels.model import KernelModel
from wastedcores.kernels.releases import Balancer, balancer_of, recorded_balancer, recorded_kernel

__all__ = [
    "CORE", "FIXES", "GENERATIONS", "MAINLINE", "MODULES", "PRESETS", "Balancer", "KernelModel", "balancer_of",
    "is_release", "recorded_balancer", "recorded_kernel",
]  # fmt: skip
