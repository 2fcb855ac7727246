"""Read a kernel's name: the version, the fixes and the modules in it, or the reason for which the name is refused."""

from __future__ import annotations

import difflib
import re

from wastedcores.errors import UnknownKernelError, UnmodelledKernelError
from wastedcores.kernels.generations import (
    FIXES,
    FORK_WAIT,
    MODULES,
    NEWEST,
    NO_AUTOGROUP,
    OLDEST,
    PRESETS,
    SHORT,
)
from wastedcores.kernels.rules import BASE_SLICES_NS, FEATURES, NEWIDLE, RULES

#: from this release on, the third number of a version matters, because stable releases change the balancer
POINTS_SINCE = (5, 5)


def dotted(numbers: tuple[int, ...]) -> str:
    """Write a version: ``6.12.107``."""
    return ".".join(map(str, numbers))


def is_release(name: str) -> bool:
    """Tell whether a name is the release of a running kernel, which may have a distributor's suffix.

    A release has three numbers and no ``v`` (Makefile: KERNELVERSION). If a word after a ``+`` is, or nearly is, a fix or a
    module, the name stands for a model. So a misspelt fix is not taken for a distributor's suffix.
    """
    name = name.strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:[-+~_.#][\w.~+#-]*)?", name, re.ASCII):
        return False
    return not any(map(_of_models, name.split("+")[1:]))


def _of_models(part: str) -> bool:
    """Tell whether a part of a name is, or nearly is, a word that names of models have after a ``+``."""
    near = [*FIXES, "all_fixes", "base_slice_ns", "newidle", FORK_WAIT, NO_AUTOGROUP]
    near += [f"no_{feature.lower()}" for feature in FEATURES]
    return part in (*SHORT, *MODULES) or bool(difflib.get_close_matches(part.lower(), near, 1, 0.7))


def modules(parts: list[str], name: str) -> tuple[str, ...]:
    """Return the modules in the name of a design, in order."""
    for i, module in enumerate(parts):
        if module not in MODULES:
            near = difflib.get_close_matches(module, MODULES, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise UnknownKernelError(
                f"kernel {name!r}: unknown module {module!r}{hint}; the core can ask {', '.join(MODULES)}. Fixes belong "
                "to a Linux (v4.1+all_fixes); your own module goes to replay(modules=[...]) (docs/design-mode.md)."
            )
        if module in parts[:i]:
            raise UnknownKernelError(
                f"kernel {name!r}: module {module!r} is given twice; give each once, in the order in which the core asks them."
            )
    return tuple(parts)


def fix_name(fix: str, name: str) -> str:
    """Return the name of a fix, or refuse an unknown one."""
    if fix == NO_AUTOGROUP:
        raise UnknownKernelError(
            f"kernel {name!r}: {NO_AUTOGROUP} takes no value; write +{NO_AUTOGROUP}."
        )
    if fix in MODULES:
        raise UnknownKernelError(
            f"kernel {name!r}: {fix} is not a fix of Linux but an optimisation module; write core+{fix}."
        )
    if fix not in FIXES:
        near = difflib.get_close_matches(fix, (*FIXES, "all_fixes", NO_AUTOGROUP), 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UnknownKernelError(
            f"kernel {name!r}: unknown fix {fix!r}{hint}; known are {', '.join(FIXES)} and all_fixes, "
            "each with :patch for the published patch instead of the paper's text."
        )
    return fix


def version(base: str, name: str) -> tuple[int, ...]:
    """Read ``v4.1``, ``4.1.3`` or ``6.1.0-56-amd64``.

    The third number counts from v5.5 on, and before v5.5 only in 4.1.52, which builds other groups than 4.1. A 0 is left out.
    """
    match = re.fullmatch(
        r"(v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?)(?:[-~_.#]([\w.~#-]*))?", base, re.ASCII
    )
    if match:
        numbered, *numbers, suffix = match.groups()
        if suffix and _of_models(suffix) and not is_release(base):
            raise UnknownKernelError(
                f"kernel {name!r}: what changes a kernel follows a +; write {numbered}+{suffix}."
            )
        major, minor, stable = (int(n or 0) for n in numbers)
        if OLDEST <= (major, minor) <= NEWEST:
            exact = (major, minor) >= POINTS_SINCE or (major, minor, stable) == (4, 1, 52)
            return (major, minor, stable) if exact and stable else (major, minor)
        if (major, minor) > NEWEST:
            raise UnmodelledKernelError(
                f"kernel {name!r} is newer than v{dotted(NEWEST)}, the newest kernel whose domains are modelled; give "
                f"v{dotted(NEWEST)} if the nearest model is good enough."
            )
        raise UnknownKernelError(
            f"kernel {name!r} is older than v{dotted(OLDEST)}, the oldest kernel that is modelled; give v{dotted(OLDEST)} if "
            "the nearest model is good enough."
        )
    near = difflib.get_close_matches(base, PRESETS, 1)
    raise UnknownKernelError(
        f"kernel {name!r} is unknown{f' (did you mean {near[0]}?)' if near else ''}; give a "
        f"version from v{dotted(OLDEST)} to v{dotted(NEWEST)}, such as v4.1, v4.12, v6.1, "
        "with fixes as in v4.1+group_construction, or a design such as core+cache_affinity."
    )


def feature(part: str, numbers: tuple[int, ...], name: str) -> str:
    """Return the scheduler feature that a part of a name switches off: ``NI_RANDOM`` for ``NO_NI_RANDOM``. Case is ignored."""
    found = part.upper().removeprefix("NO_")
    if found not in FEATURES:
        near = difflib.get_close_matches(found, FEATURES, 1)
        hint = f" (did you mean NO_{near[0]}?)" if near else ""
        known = ", ".join(f"NO_{feature}" for feature in FEATURES)
        raise UnknownKernelError(
            f"kernel {name!r}: unknown switch {part!r}{hint}; known are {known}."
        )
    if numbers not in RULES:
        known = ", ".join("v" + dotted(release) for release in sorted(RULES))
        raise UnknownKernelError(
            f"kernel {name!r}: {part} switches off a feature that only {known} have in the replay. "
            f"Take one of them, or add a fix: {', '.join(FIXES)}, all_fixes."
        )
    rule, without = FEATURES[found]
    if getattr(RULES[numbers], rule) == without:
        raise UnknownKernelError(
            f"kernel {name!r}: this release does not have the feature {found}; leave {part} out."
        )
    return found


def base_slice_ns(value: str, numbers: tuple[int, ...], name: str) -> int:
    """Return the length of slices that a part of a name sets: 3000000 for ``base_slice_ns:3000000``."""
    if numbers not in RULES or not RULES[numbers].eevdf:
        known = ", ".join("v" + dotted(release) for release in RULES if RULES[release].eevdf)
        raise UnknownKernelError(
            f"kernel {name!r}: the replay can change base_slice_ns of {known} only; kernels before v6.6 do not have it."
        )
    low, high = BASE_SLICES_NS
    if not re.fullmatch(r"[0-9]{1,12}", value) or not low <= int(value) <= high:
        raise UnknownKernelError(
            f"kernel {name!r}: {value!r} is not a length of slices; write base_slice_ns: and a whole number of ns from "
            f"{low} to {high}, such as base_slice_ns:3000000."
        )
    return int(value)


def newidle(value: str, numbers: tuple[int, ...], name: str) -> str:
    """Return the rule of newidle balancing that a part of a name chooses: ``bump`` for ``newidle:bump``."""
    if numbers not in RULES:
        known = ", ".join("v" + dotted(release) for release in sorted(RULES))
        raise UnknownKernelError(
            f"kernel {name!r}: the replay can change newidle balancing of {known} only."
        )
    if value not in NEWIDLE:
        meanings = "; ".join(f"newidle:{rule}: {what}" for rule, what in NEWIDLE.items())
        raise UnknownKernelError(
            f"kernel {name!r}: {value!r} is no rule of newidle balancing; there are {meanings}."
        )
    return value


def canonical(numbers: tuple[int, ...], fixes: dict[str, str]) -> str:
    """Return the canonical name of a version with fixes."""
    base = "v" + dotted(numbers)
    readings = set(fixes.values())
    if len(fixes) == len(FIXES) and len(readings) == 1:
        return base + "+all_fixes" + (":patch" if readings == {"patch"} else "")
    return base + "".join(
        f"+{f}{':patch' if fixes[f] == 'patch' else ''}" for f in FIXES if f in fixes
    )
