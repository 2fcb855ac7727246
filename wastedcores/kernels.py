"""Models of Linux versions: which code builds domains and balances load, and which of the four bugs are fixed.

Interface::

    k = KernelModel.named("v4.1+group_construction:patch", sched_debug=True)
    k.name                   "v4.1+group_construction:patch"
    k.version                (4, 1)
    k.group_imbalance        None, "paper" or "patch"; likewise
    k.group_construction     k.overload_on_wakeup, k.missing_domains
    k.sched_debug            booted with ``sched_debug`` (changes NUMA levels before 5.12)
    k.generation             "v4.1" or "v5.5": the load balancer (5.5 has Guittot's rework)
    k.group_builder          "v4.1", "v4.1.52", "authors", "v4.13" or "v5.13": the code that builds overlapping groups
    k.at_least(4, 13)        whether the version is 4.13 or newer

"paper" is a fix as the paper's text describes it, and "patch" is the authors' published patch. They differ: the group
construction patch also lets every CPU balance, and the group imbalance patch takes the last group that passes (see
docs/scheduler-model.md, section 13). A name is ``vX.Y`` from v3.19 to v6.18, followed by any number of ``+fix`` or
``+fix:patch``, or by ``+all_fixes``. The release of a running kernel, as ``uname -r`` prints it, is a name too:
``6.12.107+deb13-amd64``. :func:`recorded_kernel` finds the model of a kernel that ran, which may be newer than v6.18.

``+fork_wait:1`` and ``+fork_wait:2`` are the two placement strategies of the fork/wait paper, on any of these kernels. They are
no fixes of the four bugs, so ``all_fixes`` has neither.

Besides Linux there are designs (paper, section 5). ``core`` is a scheduler that keeps every core busy while a thread waits.
Optimisation modules follow in the order in which it asks them, as in ``core+cache_affinity+power``. docs/design-mode.md
has the rules.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from wastedcores.errors import UnknownKernelError, UnmodelledKernelError

#: the four bugs of the paper, by the names of their fixes and in the paper's order, and the short names in recordings
FIXES = ("group_imbalance", "group_construction", "overload_on_wakeup", "missing_domains")
SHORT = {
    "gi": "group_imbalance",
    "sgc": "group_construction",
    "oow": "overload_on_wakeup",
    "msd": "missing_domains",
}
OLDEST, NEWEST = (3, 19), (6, 18)

#: the release whose load balancer the replay models
MODELLED = (4, 1)
#: name of the core module, and the optimisation modules that it can ask with their suggestions (paper, section 5)
CORE = "core"
MODULES = {
    "cache_affinity": "wake a thread on the CPU where it ran last",
    "waker_locality": "wake a thread on its waker's node, on the waker's CPU if nothing there is idle",
    "load_balance": "at ticks, take a thread from the longest queue",
    "numa": "keep a thread on the node where it started, where its memory is",
    "contention": "spread threads over the last-level caches",
    "power": "fill the nodes that are awake and let the others sleep",
    "wakeup_v4_1": "place as Linux v4.1 does, with the Overload-on-Wakeup bug",
    "balance_v4_1": "balance newly idle CPUs as Linux v4.1 does, with its Group Imbalance and domain bugs",
    "fork_flag": "start the child of a fork that is followed at once by a wait on its parent's CPU",
    "fast_core": "wake and start a thread on the idle CPU whose core has the highest frequency",
}
#: name of the fork/wait paper's strategies in kernel names, as in ``v4.19+fork_wait:1``
FORK_WAIT = "fork_wait"

#: the release from which mainline does not need a fix: 0372dd2736e0 for groups, 8f37961cf223 for domains, 0b0695f2b34a
#: for balancing by the number of tasks instead of the average load; wakeups are still confined to the LLC
MAINLINE = {"group_imbalance": (5, 5), "group_construction": (4, 13), "missing_domains": (4, 9)}

#: the kernels that menus offer; ``named`` accepts any version and combination
PRESETS = (
    "v4.1",
    "v4.1+group_imbalance",
    "v4.1+group_imbalance:patch",
    "v4.1+group_construction",
    "v4.1+group_construction:patch",
    "v4.1+overload_on_wakeup",
    "v4.1+overload_on_wakeup:patch",
    "v4.1+missing_domains",
    "v4.1+missing_domains:patch",
    "v4.1+all_fixes",
    "v4.1+all_fixes:patch",
    "v4.12",
    "v4.13",
    "v4.19",
    "v5.4",
    "v5.15",
    "v6.1",
    "v6.6",
    "v6.12",
)

#: kernel names in oracle cases that say more than a version
_LITERAL = {
    "4.1.3-patched": "v4.1+group_construction:patch+missing_domains:patch",
    "4.1.3-nodebug": "v4.1",
}

#: variants of the guest recordings (datasets/recordings/README.md)
_GUEST = {
    "buggy": "v4.1",
    "gi": "v4.1+group_imbalance:patch",
    "sgc": "v4.1+group_construction",
    "sgclit": "v4.1+group_construction:patch",
    "oow": "v4.1+overload_on_wakeup:patch",
    "msd": "v4.1+missing_domains:patch",
    "all": "v4.1+group_imbalance:patch+group_construction+overload_on_wakeup:patch+missing_domains:patch",
    "alllit": "v4.1+all_fixes:patch",
    "6.1": "v6.1",
}

#: the suffixes of kernels whose vendors take over scheduler changes and keep the version: Enterprise Linux and its rebuilds
#: (``.el9_5``, ``.el8uek``), and SUSE Linux Enterprise (``-150600.23.25-default``)
_VENDOR = re.compile(r"\.el\d+\w*|-\d{6}\.[\d.]*-\w+", re.ASCII)


@dataclass(frozen=True)
class KernelModel:
    """One Linux kernel for x86-64, or one design.

    Attributes
    ----------
    name
        A name that :meth:`named` accepts.
    version
        The release, ``(4, 1)``, or ``(4, 1, 52)`` for a stable release that differs from the first one.
    group_imbalance, group_construction, overload_on_wakeup, missing_domains
        None (as released), ``"paper"`` or ``"patch"``.
    sched_debug
        The kernel was booted with ``sched_debug``.
    modules
        The optimisation modules of a design, in order; None for a Linux.
    fork_wait
        The strategy of the fork/wait paper, 1 or 2; 0 for none.
    """

    name: str
    version: tuple[int, ...]
    group_imbalance: str | None = None
    group_construction: str | None = None
    overload_on_wakeup: str | None = None
    missing_domains: str | None = None
    sched_debug: bool = False
    modules: tuple[str, ...] | None = None
    fork_wait: int = 0

    @classmethod
    def named(cls, name: str, sched_debug: bool = False) -> KernelModel:
        """Find a kernel by name.

        Parameters
        ----------
        name
            ``v4.1``, ``v4.1+group_construction:patch``, ``v4.12``, ``4.1.3-patched``, ...; a release such as
            ``6.12.107+deb13-amd64`` or ``6.19.0-rc3+``; ``core``, ``core+cache_affinity``, ...
        sched_debug
            The kernel was booted with ``sched_debug``.

        Returns
        -------
        KernelModel
            The kernel.

        Raises
        ------
        UnknownKernelError
            The version is older than 3.19, it cannot take the fix, or the module is unknown.
        UnmodelledKernelError
            The version is newer than 6.18.
        """
        written = _LITERAL.get(name.strip(), name.strip())
        base, *parts = written.split("+")
        if base == CORE:
            modules = _modules(parts, name)
            return cls("+".join((CORE, *modules)), (4, 1), sched_debug=sched_debug, modules=modules)
        version = _version(base, name)
        if _is_release(written):
            parts = []  # a distributor's suffix
        fixes: dict[str, Any] = {}
        strategy = 0
        for part in parts:
            fix, _, reading = part.partition(":")
            if fix == FORK_WAIT:
                if reading not in ("1", "2"):
                    raise UnknownKernelError(
                        f"kernel {name!r}: the fork/wait paper has two strategies; write {FORK_WAIT}:1 or {FORK_WAIT}:2."
                    )
                strategy = int(reading)
                continue
            if reading not in ("", "paper", "patch"):
                raise UnknownKernelError(
                    f"kernel {name!r}: {reading!r} is not a reading of a fix; write {fix} (the paper's text) or "
                    f"{fix}:patch (the authors' published patch)."
                )
            for one in FIXES if fix == "all_fixes" else (_fix_name(fix, name),):
                if version >= MAINLINE.get(one, (99,)):
                    since = ".".join(map(str, MAINLINE[one]))
                    raise UnknownKernelError(
                        f"kernel {name!r}: {one} is for kernels before {since}, which has its own cure; leave it out."
                    )
                fixes[one] = reading or "paper"
        written = _canonical(version, fixes) + (f"+{FORK_WAIT}:{strategy}" if strategy else "")
        return cls(written, version, sched_debug=sched_debug, fork_wait=strategy, **fixes)

    @classmethod
    def of_guest_variant(cls, variant: str) -> KernelModel:
        """Return the kernel of a guest recording by its variant: buggy, gi, sgc, sgclit, oow, msd, all, alllit or 6.1.

        Raises
        ------
        UnknownKernelError
            There is no such variant.
        """
        if variant not in _GUEST:
            raise UnknownKernelError(
                f"recording variant {variant!r} is unknown; known are {', '.join(_GUEST)}."
            )
        return cls.named(_GUEST[variant])

    def at_least(self, *version: int) -> bool:
        """Tell whether this release is ``version`` or newer."""
        return self.version >= version

    @property
    def is_design(self) -> bool:
        """True if this is the core module with optimisation modules instead of a Linux."""
        return self.modules is not None

    @property
    def linux(self) -> KernelModel:
        """The Linux whose domains a replay uses: this kernel, or v4.1 for a design, whose modules may imitate it."""
        return KernelModel.named("v4.1", self.sched_debug) if self.is_design else self

    @property
    def fixes(self) -> dict[str, str]:
        """The fixes that this kernel has, each with its reading, ``paper`` or ``patch``."""
        return {f: r for f in FIXES if (r := getattr(self, f)) is not None}

    def has(self, fix: str) -> bool:
        """Return whether this kernel has the fix for a bug, from a patch or from mainline.

        Parameters
        ----------
        fix
            One of :data:`FIXES`.
        """
        return getattr(self, fix) is not None or (fix in MAINLINE and self.at_least(*MAINLINE[fix]))

    @property
    def generation(self) -> str:
        """The load balancer: ``v4.1`` (by average load) or ``v5.5`` (by kind of imbalance, 0b0695f2b34a)."""
        return "v5.5" if self.at_least(5, 5) else "v4.1"

    @property
    def has_eevdf(self) -> bool:
        """True if the fair class is EEVDF, which replaced CFS in v6.6 (147f3efaa241)."""
        return self.at_least(6, 6)

    @property
    def replay_warning(self) -> str | None:
        """A warning that a replay under this kernel is not a model of all of it, or None.

        The replay balances load, places tasks and tracks load as v4.1 does. For another release before 5.5 only the domains
        and groups are those of that release; v4.3, for example, computes load differently (9d89c257dfb9).
        """
        if self.version[:2] == MODELLED or self.generation != "v4.1":
            return None
        base = "v" + ".".join(map(str, self.version))
        return (
            f"kernel {self.name}: the replay uses the domains and groups of {base}, but balances, wakes and tracks load "
            "as v4.1 does; do not read its numbers as those of a real " + base
        )

    @property
    def group_builder(self) -> str:
        """The version of ``build_overlap_sched_groups`` that builds overlapping groups.

        ``v4.1`` begins with the span's first CPU. ``v4.1.52`` does the same with the later balance mask. ``authors`` begins
        with the CPU's own group. ``v4.13`` begins with the CPU and wraps around. ``v5.13`` does that with
        ``find_descended_sibling`` (585b6d2723dc).
        """
        if self.at_least(5, 13):
            return "v5.13"
        if self.at_least(4, 13):
            return "v4.13"
        if self.group_construction:
            return "authors"
        return "v4.1.52" if self.version == (4, 1, 52) else "v4.1"

    @property
    def loses_numa_levels(self) -> bool:
        """True if bringing a CPU online can reset the level table (the Missing Scheduling Domains bug, paper 3.4).

        arch/x86/kernel/smpboot.c: set_cpu_sibling_map(), v3.19 to v4.8; cured by 8f37961cf223 in v4.9.
        """
        return not self.at_least(4, 9) and self.missing_domains is None

    @property
    def every_cpu_balances(self) -> bool:
        """True if should_we_balance() always returns true, which it does with the published group construction patch only."""
        return self.group_construction == "patch"


def recorded_kernel(release: str) -> tuple[KernelModel, str | None]:
    """Find the model of a kernel that ran, from its release.

    Parameters
    ----------
    release
        What ``uname -r`` prints, such as ``6.12.107+deb13-amd64``, or the name of a model.

    Returns
    -------
    KernelModel
        The model; v6.18 for a newer kernel.
    str or None
        A sentence without a full stop if the model may differ from that kernel: it is newer than the newest model, or its
        vendor keeps the version number and takes over later changes of the scheduler.

    Raises
    ------
    UnknownKernelError
        This is no release, or it is older than v3.19.
    """
    try:
        model = KernelModel.named(release)
    except UnmodelledKernelError:
        nearest = KernelModel.named("v" + _dotted(NEWEST))
        return nearest, (
            f"kernel {release} is newer than {nearest.name}, the newest kernel whose domains are modelled: these are the "
            f"domains of {nearest.name}, and those of {release} may differ"
        )
    if _is_release(release) and (vendor := _VENDOR.search(release)):
        return model, (
            f"kernel {release} has the scheduler changes that its vendor took over from later releases "
            f"({vendor[0].strip('.-')}): these are the domains of mainline's {model.name}, and its own may differ"
        )
    return model, None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _is_release(name: str) -> bool:
    """Tell whether a name is the release of a running kernel, with whatever its distributor appended.

    A release has three numbers and no ``v`` (Makefile: KERNELVERSION). Words after a ``+`` that are, or nearly are, a fix or
    a module make it the name of a model, so that a misspelt fix is not taken for a distributor's suffix.
    """
    name = name.strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:[-+~_.#][\w.~+#-]*)?", name, re.ASCII):
        return False
    words = (*FIXES, *SHORT, *MODULES, "all_fixes")
    return not any(
        part in words or difflib.get_close_matches(part, words[:4], 1, 0.7)
        for part in name.split("+")[1:]
    )


def _modules(parts: list[str], name: str) -> tuple[str, ...]:
    """Return the modules in the name of a design, in order."""
    for i, module in enumerate(parts):
        if module not in MODULES:
            near = difflib.get_close_matches(module, MODULES, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UnknownKernelError(
                f"kernel {name!r}: unknown module {module!r}{hint}; the core can ask {', '.join(MODULES)}. Fixes belong "
                "to a Linux (v4.1+all_fixes); your own module goes to the reference (docs/design-mode.md)."
            )
        if module in parts[:i]:
            raise UnknownKernelError(
                f"kernel {name!r}: module {module!r} is given twice; give each once, in the order in which the core asks them."
            )
    return tuple(parts)


def _fix_name(fix: str, name: str) -> str:
    """Return the full name of a fix, or refuse an unknown one."""
    fix = SHORT.get(fix, fix)
    if fix in MODULES:
        raise UnknownKernelError(
            f"kernel {name!r}: {fix} is not a fix of Linux but an optimisation module; write core+{fix}."
        )
    if fix not in FIXES:
        near = difflib.get_close_matches(fix, FIXES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UnknownKernelError(
            f"kernel {name!r}: unknown fix {fix!r}{hint}; known are {', '.join(FIXES)} and all_fixes, "
            "each with :patch for the published patch instead of the paper's text."
        )
    return fix


def _version(base: str, name: str) -> tuple[int, ...]:
    """Read ``v4.1``, ``4.1.3`` or ``6.1.0-56-amd64``; the stable number counts only where that release differs."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-~_.#][\w.~#-]*)?", base, re.ASCII)
    if match:
        major, minor, stable = (int(n or 0) for n in match.groups())
        if OLDEST <= (major, minor) <= NEWEST:
            return (4, 1, 52) if (major, minor, stable) == (4, 1, 52) else (major, minor)
        if (major, minor) > NEWEST:
            raise UnmodelledKernelError(
                f"kernel {name!r} is newer than v{_dotted(NEWEST)}, the newest kernel whose domains are modelled; give "
                f"v{_dotted(NEWEST)} if the nearest model is good enough."
            )
    near = [] if match else difflib.get_close_matches(base, PRESETS, 1)
    raise UnknownKernelError(
        f"kernel {name!r} is unknown{f' (did you mean {near[0]}?)' if near else ''}; give a "
        f"version from v{_dotted(OLDEST)} to v{_dotted(NEWEST)}, such as v4.1, v4.12, v6.1, "
        "with fixes as in v4.1+group_construction, or a design such as core+cache_affinity."
    )


def _canonical(version: tuple[int, ...], fixes: dict[str, str]) -> str:
    """Return the canonical name of a version with fixes."""
    base = "v" + ".".join(map(str, version))
    readings = set(fixes.values())
    if len(fixes) == len(FIXES) and len(readings) == 1:
        return base + "+all_fixes" + (":patch" if readings == {"patch"} else "")
    return base + "".join(
        f"+{f}{':patch' if fixes[f] == 'patch' else ''}" for f in FIXES if f in fixes
    )
