"""The options that several verbs of ``wastedcores guest`` share, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.cli._output import check_writable

if TYPE_CHECKING:
    from wastedcores.guest import Kernel
    from wastedcores.guest.boot import Options as BootOptions
    from wastedcores.topology.machine import Machine

#: rows of options, see wastedcores/cli/_verb.py
GUEST = """
    machine  NAME|FILE|live  The machine. Default: the scenario's own, else guest-4.
    kernel   NAME            A kernel of Debian's packages, such as debian:6.12. Default: debian:6.12.107.
    bzimage  FILE            Boot the kernel image in this file instead.
    source   DIR             Build the kernel from this source of Linux instead.
    patch    FILE            Apply this patch to the source. May be repeated.
    feature  NAME            Set a scheduler feature, such as NO_NI_RANDOM. May be repeated.
    sysctl   NAME=VALUE      Set kernel.sched_autogroup_enabled=0 and the like. May be repeated.
    append   TEXT            Further boot parameters.
    buffer   min=64 KIB      The trace buffer of each CPU, in KiB.
    timeout  >0 SECONDS      Stop the guest after this much time of the host.
    console  FILE            Also write what the guest's console said to this file.
"""


@dataclass(frozen=True)
class ScenarioOptions:
    """How a scenario is run."""

    seed: int = 1
    set_: list[str] | None = None
    until: float | None = None


DEFAULT_KERNEL = "debian:6.12.107"


@dataclass(frozen=True)
class KernelOptions:
    """Which kernel is booted."""

    kernel: str | None = None
    bzimage: Path | None = None
    source: Path | None = None
    patch: list[Path] | None = None


@dataclass(frozen=True)
class BootingOptions:
    """How the guest is booted."""

    feature: list[str] | None = None
    sysctl: list[str] | None = None
    append: str = ""
    buffer: int = 2048
    timeout: float = 3600
    console: Path | None = None


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
    find_emulator()  # before a kernel is fetched or built for nothing
    if asked.source is not None:
        return built_kernel(asked.source, asked.patch or ())
    return (
        find_kernel(asked.kernel or DEFAULT_KERNEL)
        if asked.bzimage is None
        else Kernel.of_image(asked.bzimage)
    )


def machine_of(name: str | None, scenario: str | None) -> Machine:
    """Find the machine that was named, or that of a scenario."""
    from wastedcores.topology.source import find_machine
    from wastedcores.workload.scenarios import scenario as find

    return find_machine(name or (find(scenario).machine if scenario else "guest-4")).machine


def boot_options(asked: BootingOptions) -> BootOptions:
    """Return how the guest is booted."""
    from wastedcores.errors import UsageError
    from wastedcores.guest.boot import Options

    given = {}
    for text in asked.sysctl or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--sysctl {text}: expected NAME=VALUE, such as kernel.sched_autogroup_enabled=0."
            )
        given[name] = value
    if asked.console is not None:
        check_writable(asked.console)
        asked.console.unlink(missing_ok=True)
    return Options(
        tuple(asked.feature or ()), given, asked.append, asked.buffer, asked.timeout, asked.console
    )
