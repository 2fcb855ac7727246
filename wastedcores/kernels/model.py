"""The model of one kernel: which code builds its domains and balances load, and which of the four bugs are fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wastedcores.errors import UnknownKernelError
from wastedcores.kernels import _parsing, generations
from wastedcores.kernels import generations as gs
from wastedcores.kernels.rules import CACHE_AWARE, RULES, Rules, without


@dataclass(frozen=True)
class KernelModel:
    """One Linux kernel for x86-64, or one design.

    Attributes
    ----------
    name
        A name that :meth:`named` accepts.
    version
        The release, ``(4, 1)``; from v5.5 on with the number of the stable release unless it is 0, ``(6, 12, 107)``.
    group_imbalance, group_construction, overload_on_wakeup, missing_domains
        None (as released), ``"paper"`` or ``"patch"``.
    sched_debug
        Whether the kernel was booted with ``sched_debug``.
    modules
        The optimisation modules of a design, in order; None for a Linux.
    fork_wait
        The strategy of the fork/wait paper, 1 or 2; 0 for none.
    features_off
        The scheduler features that are switched off, such as ``NI_RANDOM`` (``v6.12.107+NO_NI_RANDOM``).
    base_slice_ns
        What was written to ``/sys/kernel/debug/sched/base_slice_ns`` after boot, in ns (``v6.12.107+base_slice_ns:3000000``);
        None if nothing was written. When a CPU goes online or offline, the kernel sets its own value again.
    newidle
        The rule of newidle balancing if it differs from the rule of the release (``v6.12.107+newidle:bump``); else None.
    noautogroup
        Whether the kernel was booted with ``noautogroup`` (``v6.12.107+noautogroup``), so that sessions are not task groups.
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
    features_off: tuple[str, ...] = ()
    base_slice_ns: int | None = None
    newidle: str | None = None
    noautogroup: bool = False

    @classmethod
    def named(cls, name: str, sched_debug: bool = False) -> KernelModel:
        """Find a kernel by name.

        Parameters
        ----------
        name
            ``v4.1``, ``v4.1+group_construction:patch``, ``v4.12``, ``4.1.3-patched``, ...; a release such as
            ``6.12.107+deb13-amd64`` or ``6.19.0-rc3+``; ``core``, ``core+cache_affinity``, ...
        sched_debug
            Whether the kernel was booted with ``sched_debug``.

        Returns
        -------
        KernelModel
            The kernel.

        Raises
        ------
        UnknownKernelError
            The version is older than 3.19, the fix does not apply to it, or the module is unknown.
        UnmodelledKernelError
            The version is newer than 7.2.
        """
        written = gs.LITERAL.get(name.strip(), name.strip())
        base, *parts = written.split("+")
        if base == gs.CORE:
            modules = _parsing.modules(parts, name)
            return cls(
                "+".join((gs.CORE, *modules)), (4, 1), sched_debug=sched_debug, modules=modules
            )
        version = _parsing.version(base, name)
        if _parsing.is_release(written):
            parts = []  # a distributor's suffix
        fixes: dict[str, Any] = {}
        strategy, off, base_slice_ns, newidle = 0, set[str](), None, None
        given = set[str]()
        for part in parts:
            if part.upper().startswith("NO_"):
                off.add(_parsing.feature(part, version, name))
                continue
            fix, _, reading = part.partition(":")
            fix = gs.SHORT.get(fix, fix)
            if fix in given:
                raise UnknownKernelError(f"kernel {name!r}: {fix} is given twice; give it once.")
            given.add(fix)
            if part == gs.NO_AUTOGROUP:
                continue
            if fix == "isolcpus":
                raise UnknownKernelError(
                    f"kernel {name!r}: isolated CPUs belong to the machine; write them into the field isolated of a file that "
                    "describes it, such as isolated: 2-3, and name that file with --machine."
                )
            if fix == "base_slice_ns":
                base_slice_ns = _parsing.base_slice_ns(reading, version, name)
                continue
            if fix == "newidle":
                newidle = _parsing.newidle(reading, version, name)
                continue
            if fix == gs.FORK_WAIT:
                if reading not in ("1", "2"):
                    raise UnknownKernelError(
                        f"kernel {name!r}: the fork/wait paper has two strategies; write {gs.FORK_WAIT}:1 or {gs.FORK_WAIT}:2."
                    )
                strategy = int(reading)
                continue
            named = gs.FIXES if fix == "all_fixes" else (_parsing.fix_name(fix, name),)
            if reading not in ("", "paper", "patch"):
                raise UnknownKernelError(
                    f"kernel {name!r}: {reading!r} is not a reading of a fix; write {fix} (the paper's text) or "
                    f"{fix}:patch (the authors' published patch)."
                )
            for one in named:
                if version >= gs.MAINLINE.get(one, (99,)):
                    since = ".".join(map(str, gs.MAINLINE[one]))
                    instead = "leave it out"
                    if fix == "all_fixes":
                        left = [f for f in gs.FIXES if version < gs.MAINLINE.get(f, (99,))]
                        instead = f"write +{'+'.join(left)}, which is what this release lacks"
                    raise UnknownKernelError(
                        f"kernel {name!r}: {one} is for kernels before {since}, since when Linux has its own cure; {instead}."
                    )
                if reading == "patch" and version in RULES:
                    raise UnknownKernelError(
                        f"kernel {name!r}: the authors' patch is for Linux 4.1; write {one} for the same change to this kernel."
                    )
                fixes[one] = reading or "paper"
        written = _parsing.canonical(version, fixes) + (
            f"+{gs.FORK_WAIT}:{strategy}" if strategy else ""
        )
        features_off = tuple(sorted(off))
        written += "".join(f"+NO_{feature}" for feature in features_off)
        written += f"+base_slice_ns:{base_slice_ns}" if base_slice_ns is not None else ""
        if newidle is not None and newidle == without(RULES[version], features_off).newidle:
            newidle = None
        written += f"+newidle:{newidle}" if newidle is not None else ""
        noautogroup = gs.NO_AUTOGROUP in parts
        written += f"+{gs.NO_AUTOGROUP}" if noautogroup else ""
        return cls(
            written,
            version,
            sched_debug=sched_debug,
            noautogroup=noautogroup,
            fork_wait=strategy,
            features_off=features_off,
            base_slice_ns=base_slice_ns,
            newidle=newidle,
            **fixes,
        )

    @classmethod
    def of_guest_variant(cls, variant: str) -> KernelModel:
        """Return the kernel of a guest recording by its variant, such as buggy, gi, sgclit, all, 6.1 or 7.2."""
        if variant not in gs.GUEST:
            raise UnknownKernelError(
                f"recording variant {variant!r} is unknown; known are {', '.join(gs.GUEST)}."
            )
        return cls.named(gs.GUEST[variant])

    def at_least(self, *version: int) -> bool:
        """Tell whether this release is ``version`` or newer."""
        return self.version >= version

    @property
    def is_design(self) -> bool:
        """True if this is the core module with optimisation modules instead of a Linux."""
        return self.modules is not None

    @property
    def linux(self) -> KernelModel:
        """The Linux whose domains a replay uses: this kernel or, for a design, v4.1, which the modules may imitate."""
        return KernelModel.named("v4.1", self.sched_debug) if self.is_design else self

    @property
    def fixes(self) -> dict[str, str]:
        """The fixes that this kernel has, each with its version, ``paper`` or ``patch``."""
        return {f: r for f in gs.FIXES if (r := getattr(self, f)) is not None}

    def has(self, fix: str) -> bool:
        """Return whether this kernel has the fix for a bug (one of :data:`FIXES`), from a patch or from mainline."""
        return getattr(self, fix) is not None or (
            fix in gs.MAINLINE and self.at_least(*gs.MAINLINE[fix])
        )

    @property
    def generation(self) -> str:
        """The balancer's generation, named by its first release: ``v4.1``, ``v5.5``, ``v6.6`` or ``v6.12`` (`GENERATIONS`)."""
        return generations.generation(self.version).name

    @property
    def rules(self) -> Rules:
        """The rules that distinguish the scheduler of this release; an error if the replay has no rules for this release."""
        try:
            rules = without(RULES[self.version], self.features_off)
            return rules._replace(newidle=self.newidle) if self.newidle else rules
        except KeyError:
            raise UnknownKernelError(
                f"kernel {self.name!r}: the replay has no rules of this release. It models {generations.replayed_listed()}."
            ) from None

    @property
    def is_replayed(self) -> bool:
        """True if the replay models how this kernel, or at least its generation, balances (see :attr:`replay_warning`)."""
        return self.generation == "v4.1" or self.version in generations.REPLAYED

    @property
    def is_modern(self) -> bool:
        """True if the replay has rules for this release, which places, balances and tracks load as releases since v6.1 do."""
        return self.version in RULES

    @property
    def fork_migrates(self) -> bool:
        """True if the event sched_migrate_task is recorded when a fork chooses another CPU.

        Since v4.8 it is not recorded, because wake_up_new_task() (kernel/sched/core.c) calls __set_task_cpu() instead of
        set_task_cpu().
        """
        return self.is_design or not self.at_least(4, 8)

    @property
    def stand_in(self) -> str | None:
        """The nearest release that the replay models, if this release is v5.15 or later and not modelled itself; else None."""
        near = None if self.is_replayed else generations.stand_in(self.version)
        return None if near is None else "v" + _parsing.dotted(near)

    @property
    def nearest(self) -> str:
        """The nearest release of the same generation whose balancer has been read: ``v6.12.107`` for 6.12.94."""
        return "v" + _parsing.dotted(generations.nearest(self.version))

    @property
    def replay_warning(self) -> str | None:
        """A warning that a replay does not model all of this kernel, or None.

        The replay balances load, places tasks and tracks load as v4.1 or as v4.4 does. Of any other release before 5.5 it models
        the domains and groups, from v4.10 on also the choice of a new task's CPU (:attr:`forks_avoid_blocked_load`,
        :attr:`forks_stay_on_node`), and for v4.3 also the load metric (:attr:`tracks_load_v4_4`).
        """
        if self.version[:2] in generations.ORIGINAL or self.generation != "v4.1":
            return None
        base = "v" + _parsing.dotted(self.version)
        like = "v4.4" if self.tracks_load_v4_4 else "v4.1"
        return (
            f"kernel {self.name}: the replay uses the domains and groups of {base}"
            + (", and places new tasks as it does" if self.forks_avoid_blocked_load else "")
            + f", but balances, wakes and tracks load as {like} does; do not read its numbers as those of a real {base}"
        )

    @property
    def left_out(self) -> str | None:
        """A sentence about a feature of this kernel that its replay does not have, and when this matters; or None."""
        if self.version not in CACHE_AWARE:
            return None
        return (
            f"kernel {self.name}: the replay does not have its cache-aware scheduling (CONFIG_SCHED_CACHE). Every task "
            "counts as a process of one thread, for which that does nothing; threads of one process that would fit into one "
            "last-level cache may stay closer together than replayed"
        )

    @property
    def tracks_load_v4_4(self) -> bool:
        """True if load is tracked, compared and used for wakeups as in v4.4, with the metric of v4.3 (9d89c257dfb9).

        kernel/sched/fair.c, v4.4. v4.3 differs from v4.4 in details (98d8fd812667, fde7d22e01aa), so its replay has a warning.
        Releases from v4.5 on are replayed with the metric of v4.1 and have a warning, too.
        """
        return self.version[:2] in ((4, 3), (4, 4))

    @property
    def group_builder(self) -> str:
        """The version of ``build_overlap_sched_groups`` that builds overlapping groups.

        ``v4.1`` begins with the span's first CPU. ``v4.1.52`` does the same, but with the later balance mask. ``authors`` begins
        with the CPU's own group. ``v4.13`` begins with the CPU and wraps around. ``v5.13`` does the same, but with
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
    def forks_avoid_blocked_load(self) -> bool:
        """True if a new task's placement compares groups of about equal queued load by the loads of their sleeping tasks, too.

        kernel/sched/fair.c: find_idlest_group(), v4.10 to v5.4 (6b94780e45c1).
        """
        return self.generation == "v4.1" and self.at_least(4, 10)

    @property
    def forks_stay_on_node(self) -> bool:
        """True if a new task leaves its parent's node only for a node that is less loaded by more than the imbalance.

        kernel/sched/fair.c: find_idlest_group(), v4.17 to v5.4 (2c83362734da).
        """
        return self.generation == "v4.1" and self.at_least(4, 17)

    @property
    def every_cpu_balances(self) -> bool:
        """True if should_we_balance() always returns true. It does so only with the published group construction patch."""
        return self.group_construction == "patch"
