"""The options that several verbs of ``wastedcores guest`` share, and functions that find what the options name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from wastedcores.cli._options import Seed, Settings, Until, above_zero
from wastedcores.cli._output import check_writable

if TYPE_CHECKING:
    from wastedcores.guest import Kernel
    from wastedcores.guest.boot import Options as BootOptions
    from wastedcores.topology.machine import Machine

MachineGiven = Annotated[
    str | None,
    Option(
        "--machine",
        metavar="NAME|FILE|live",
        help="The machine. Default: the scenario's own, else guest-4.",
    ),
]
Features = Annotated[
    list[str] | None,
    Option(
        "--feature",
        metavar="NAME",
        help="Set a scheduler feature, such as NO_NI_RANDOM. May be repeated.",
    ),
]
Sysctls = Annotated[
    list[str] | None,
    Option(
        "--sysctl",
        metavar="NAME=VALUE",
        help="Set a sysctl of the guest, such as kernel.sched_autogroup_enabled=0. May be repeated.",
    ),
]
Scx = Annotated[
    str | None,
    Option(
        "--scx",
        metavar="FILE|work-conserving",
        help="Load this sched_ext scheduler before the workload: a BPF object (FILE.bpf.o), or the included `work-conserving`.",
    ),
]
Append = Annotated[str, Option("--append", metavar="TEXT", help="Further boot parameters.")]
Buffer = Annotated[
    int, Option("--buffer", metavar="KIB", min=64, help="The trace buffer of each CPU, in KiB.")
]
Timeout = Annotated[
    float,
    Option(
        "--timeout",
        metavar="SECONDS",
        callback=above_zero,
        help="Stop the guest after this time, measured on the host.",
    ),
]
Console = Annotated[
    Path | None,
    Option(
        "--console",
        metavar="FILE",
        help="Also write what the guest's console said to this file. With it, the guest always boots anew.",
    ),
]


@dataclass(frozen=True)
class ScenarioOptions:
    """How a scenario is run."""

    seed: Seed = 1
    set_: Settings = None
    until: Until = None


DEFAULT_KERNEL = "debian:6.12.107"


@dataclass(frozen=True)
class KernelOptions:
    """Which kernel is booted."""

    kernel: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="A kernel of Debian's packages, such as debian:6.12. Default: debian:6.12.107.",
        ),
    ] = None
    bzimage: Annotated[
        Path | None, Option(metavar="FILE", help="Boot the kernel image in this file instead.")
    ] = None
    source: Annotated[
        Path | None,
        Option(metavar="DIR", help="Build the kernel from this source of Linux instead."),
    ] = None
    patch: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Apply this patch to the source. May be repeated."),
    ] = None


def find_asked(asked: KernelOptions) -> Kernel:
    """Find or build the kernel that the options name."""
    from wastedcores.errors import UsageError
    from wastedcores.guest import Kernel, find_emulator, find_kernel
    from wastedcores.guest.kernels import built_kernel

    names = ("kernel", "bzimage", "source")
    given = [f"--{name} {value}" for name in names if (value := getattr(asked, name)) is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: give one of them.")
    if asked.patch and asked.source is None:
        raise UsageError(
            f"--patch {asked.patch[0]}: name the source to which it is applied: --source DIR."
        )
    find_emulator()  # if there is no emulator, fail before a kernel is fetched or built for nothing
    if asked.source is not None:
        return built_kernel(asked.source, asked.patch or ())
    return (
        find_kernel(asked.kernel or DEFAULT_KERNEL)
        if asked.bzimage is None
        else Kernel.of_image(asked.bzimage)
    )


def machine_of(name: str | None, scenario: str | None) -> Machine:
    """Find the named machine, or else the machine of the scenario, or else the default machine."""
    from wastedcores.topology.source import find_machine
    from wastedcores.workload.scenarios import scenario as find

    return find_machine(name or (find(scenario).machine if scenario else "guest-4")).machine


def boot_options(
    feature: list[str] | None,
    sysctl: list[str] | None,
    append: str,
    buffer: int,
    timeout: float,
    console: Path | None,
    scx: str | None = None,
) -> BootOptions:
    """Return how the guest is booted."""
    from wastedcores.errors import UsageError
    from wastedcores.guest.boot import Options
    from wastedcores.guest.scx import find_scheduler

    given = {}
    for text in sysctl or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--sysctl {text}: expected NAME=VALUE, such as kernel.sched_autogroup_enabled=0."
            )
        given[name] = value
    if console is not None:
        check_writable(console)
        console.unlink(missing_ok=True)
    scheduler = None if scx is None else find_scheduler(scx)
    return Options(tuple(feature or ()), given, append, buffer, timeout, console, scheduler)
