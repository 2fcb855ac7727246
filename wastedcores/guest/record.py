"""Recording in a guest: from a workload, a kernel and a machine to a trace."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from wastedcores.capture.system import system_facts, tasks_below
from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import text_of
from wastedcores.guest.boot import (
    EVENTS,
    ROUND_NS,
    Options,
    boot_parameters,
    booted,
    check_options,
    setup_script,
    tell_notes,
)
from wastedcores.guest.emulator import Emulator, find_emulator, inside_sha256
from wastedcores.guest.jobs import Work, numbered, scenario_work
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import GuestMachine, guest_machine
from wastedcores.guest.places import GuestError, tell
from wastedcores.guest.scx import check_kernel
from wastedcores.topology.machine import Machine
from wastedcores.topology.sysfs import live
from wastedcores.trace.io import open_trace
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import find_window

TRACE = "sys/kernel/tracing/trace"


@dataclass(frozen=True)
class Received:
    """The files that a guest sent for one job."""

    root: Path  #: The folder that stands for the guest's root.

    def text(self, path: str) -> str | None:
        """Return the text of a file, or None if the guest has no such file."""
        return text_of(self.root / path, "replace")

    def lost(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return how many events each CPU lost, and how many of these were overwritten."""
        lost, overwritten = {}, {}
        for file in (self.root / "sys/kernel/tracing/per_cpu").glob("cpu*/stats"):
            counts = dict(
                line.split(": ", 1) for line in file.read_text().splitlines() if ": " in line
            )
            cpu = int(file.parent.name[3:])
            over = int(counts.get("overrun", 0))
            gone = (
                over + int(counts.get("commit overrun", 0)) + int(counts.get("dropped events", 0))
            )
            if gone:
                lost[cpu] = gone
            if over:
                overwritten[cpu] = over
        return lost, overwritten


def unpack(sent: Path, into: Path) -> list[Received]:
    """Write what a guest sent into folders, one for each job, and return them."""
    found: list[Received] = []
    complete = 0
    with sent.open("rb") as stream:
        while line := stream.readline():
            word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
            if word == "@@JOB":
                found.append(Received(into / str(len(found))))
            elif word == "@@FILE" and found:
                _file(stream, found[-1].root, rest)
            elif word == "@@DONE":
                complete += 1
            else:
                raise _broken(line)
    if complete != len(found):
        raise GuestError(
            f"the guest sent {complete} of {len(found)} recordings whole; it ended while it was sending."
        )
    return found


def _broken(line: bytes) -> GuestError:
    return GuestError(
        f"what the guest sent is damaged: {line[:60]!r} where a file should begin. Workloads must not write to port 0xe9."
    )


def _file(stream: BinaryIO, root: Path, name: str) -> None:
    target = root / name.lstrip("/")
    if ".." in target.parts:
        raise _broken(name.encode())
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while (line := stream.readline()) != b"@@END\n":
            word, _, size = line.partition(b" ")
            if word != b"@@PIECE":
                raise _broken(line)
            left = int(size)
            while left:
                piece = stream.read(min(left, 1 << 20))
                if not piece:
                    raise _broken(piece)
                out.write(piece)
                left -= len(piece)


#: the mark that a task of the runner writes when its own affinity changes
_AFFINITY = "wastedcores affinity "
#: (most CPUs, host seconds per virtual second of a busy guest): measured (benchmarks/RESULTS.md), only used for an estimate
_COST = ((4, 1), (16, 4), (64, 14), (256, 50))


def record(
    scenario: str,
    kernel: Kernel,
    machine: Machine,
    *,
    seed: int = 1,
    given: dict[str, Any] | None = None,
    limit_ns: int | None = None,
    options: Options | None = None,
) -> Trace:
    """Run a scenario in a guest and record its schedule.

    Parameters
    ----------
    scenario
        The scenario's name, or a file that ``wastedcores replay`` takes.
    kernel, machine
        The kernel that the guest boots, and the machine on which it boots.
    seed, given
        The seed of the scenario's random draws, and those of its parameters that differ from their defaults.
    limit_ns
        Stop after this much virtual time since the workload's start. None: stop when all tasks except daemons have finished.
    options
        How the guest is booted.

    Returns
    -------
    Trace
        The events, with a header that says everything about the guest.

    Raises
    ------
    GuestError
        There is no emulator, or the guest panicked, hung or could not be set up.
    TopologyError
        The emulator cannot have this machine.
    """
    on = guest_machine(machine)
    work = scenario_work(scenario, on, seed, given, limit_ns)
    return record_all([work], kernel, on, options or Options())[0]


def record_all(
    works: Sequence[Work],
    kernel: Kernel,
    machine: GuestMachine,
    options: Options,
    tool: Emulator | None = None,
) -> list[Trace]:
    """Run several works, one after the other in one boot, and record each of them."""
    check_options(options)
    if options.scheduler is not None:
        check_kernel(kernel)
    emulator = tool or find_emulator()
    tell_notes([*machine.notes, *(note for w in works for note in w.notes)])
    jobs = numbered(works) | (options.scheduler.files() if options.scheduler else {})
    jobs |= {
        "setup": setup_script(machine, options).encode(),
        "list": "".join(
            f"{i} {_events()} {options.buffer_kb}\n" for i in range(len(works))
        ).encode(),
    }
    m = machine.machine
    cost = next((c for cpus, c in _COST if m.cpus <= cpus), _COST[-1][1])
    tell(
        f"booting {kernel.name} with {m.cpus} CPUs; a virtual second in which all compute takes about {cost} s of a free core ..."
    )
    began = time.monotonic()
    with (
        booted(emulator, kernel, machine, jobs, options, _progress(works, began)) as sent,
        tempfile.TemporaryDirectory(prefix="wastedcores-guest-") as folder,
    ):
        received = unpack(sent, Path(folder))
        if len(received) != len(works):
            raise GuestError(f"the guest sent {len(received)} recordings instead of {len(works)}.")
        return [
            _trace(got, work, kernel, machine, options, emulator)
            for got, work in zip(received, works, strict=True)
        ]


def _events() -> str:
    return ",".join(f"sched/{name}" for name in EVENTS)


def _progress(works: Sequence[Work], began: float) -> Callable[[str], None]:
    """Return a function that tells the user how far the guest is."""
    words = {"@@BOOTED": "booted", "@@RUN": "recording", "@@SEND": "sending", "@@EXIT": "exit code"}

    def said(line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "@@NOTE":
            tell(f"wastedcores: note: {rest}")
        elif word in words:
            what = rest.split()[0] if word in ("@@BOOTED", "@@EXIT") else _title(works, rest)
            tell(f"{time.monotonic() - began:6.0f} s  {words[word]} {what}")

    return said


def _title(works: Sequence[Work], number: str) -> str:
    work = works[int(number)] if number.isdigit() and int(number) < len(works) else None
    return (
        "?" if work is None else f"{work.name}, seed {work.seed}" if work.is_program else work.name
    )


def _trace(
    got: Received,
    work: Work,
    kernel: Kernel,
    machine: GuestMachine,
    options: Options,
    emulator: Emulator,
) -> Trace:
    """Read a job's trace, and write what is known about it into its header."""
    m = _seen_machine(got, machine)
    try:
        trace = open_trace(got.root / TRACE, "ftrace")
    except WastedCoresError as e:
        raise GuestError(f"{work.name}: the guest's trace cannot be read: {e}") from e
    lost, overwritten = got.lost()
    frame = (
        with_affinity(trace.events.collect(), m.cpus) if work.is_program else trace.events.collect()
    )
    facts = system_facts(got.root) | {
        "tasks": list(tasks_below(got.root)),
        "kernel_release": got.text("proc/sys/kernel/osrelease"),
        # the model describes the kernel's own scheduler, which ran no thread if the guest loaded another scheduler
        "kernel_model": None if options.scheduler else kernel.model(options.features),
        "scheduler": got.text("sys/kernel/sched_ext/root/ops"),
        "host": "guest",
        "clock": "local",
        "cpus": m.cpus,
        "cpus_online": list(m.online_cpus),
        "machine": m.to_dict(),
        "silent_is_idle": True,
        "lost": lost,
        "overwritten": overwritten,
        "events": frame.height,
        "provenance": _provenance(got, work, kernel, machine, options, emulator),
    }
    if work.is_program:
        facts["follows_affinity"] = True
    out = Trace(frame.lazy(), trace.header.model_copy(update=facts))
    try:
        return out.with_header(window=find_window(out, work.window)) if work.window else out
    except UsageError:
        tell(
            f"wastedcores: note: {work.name} did not come to both marks of its window, so none is known"
        )
        return out


def _provenance(
    got: Received,
    work: Work,
    kernel: Kernel,
    machine: GuestMachine,
    options: Options,
    emulator: Emulator,
) -> dict[str, str]:
    config = got.root / "proc/config.gz"
    told = {
        "recorded_by": "wastedcores guest record",
        "scenario": work.name,
        "seed": str(work.seed),
        "kernel": " ".join((kernel.name, kernel.version)).strip(),
        "kernel_sha256": kernel.sha256,
        "kernel_version": got.text("proc/sys/kernel/version") or "",
        "kernel_config_sha256": kernel.config_sha256
        or (_digest_of(config) if config.exists() else ""),
        "boot_parameters_given": boot_parameters(machine, options),
        "features_given": " ".join(options.features),
        "sysctls_given": " ".join(f"{k}={v}" for k, v in options.sysctls.items()),
        "autogroup": got.text("proc/sys/kernel/sched_autogroup_enabled") or "",
        "base_slice_ns": got.text("sys/kernel/debug/sched/base_slice_ns") or "",
        "emulator": f"QEMU {emulator.version}, lockstep patch {emulator.patch_sha256[:12]}, rounds of {ROUND_NS} ns",
        "inside_sha256": inside_sha256(),
        "notes": "; ".join((*machine.notes, *work.notes)),
        "scheduler_file": options.scheduler.name if options.scheduler else "",
        "scheduler_sha256": options.scheduler.sha256 if options.scheduler else "",
    }
    return {name: value for name, value in told.items() if value}


def _digest_of(packed: Path) -> str:
    import gzip
    import hashlib

    return hashlib.sha256(gzip.decompress(packed.read_bytes())).hexdigest()


def _seen_machine(got: Received, asked: GuestMachine) -> Machine:
    """Return the machine that was asked for; raise an error if the guest's kernel shows another machine.

    Only online CPUs are compared, because the kernel hides the topology of offline CPUs.
    """
    m = asked.machine
    seen = live(got.root, m.name)
    online = list(seen.online_cpus)
    if seen.cpus != m.cpus or online != list(m.online_cpus):
        raise GuestError(
            f"machine {m.name!r}: the guest has {seen.cpus} CPUs with {len(online)} online, instead of {m.cpus} with "
            f"{len(m.online_cpus)}."
        )
    for key in ("node_of_cpu", "package_of_cpu", "core_of_cpu", "llc_of_cpu"):
        pairs = {(int(getattr(seen, key)[c]), int(getattr(m, key)[c])) for c in online}
        if len(pairs) != len({a for a, _ in pairs}) or len(pairs) != len({b for _, b in pairs}):
            raise GuestError(
                f"machine {m.name!r}: the kernel of the guest sees another {key} than was asked for: "
                f"{[int(v) for v in getattr(seen, key)]} instead of {getattr(m, key).tolist()}. Please report this machine."
            )
    return m


def with_affinity(events: pl.DataFrame, cpus: int) -> pl.DataFrame:
    """Turn the runner's marks about affinity into events of the kind ``affinity``."""
    told = pl.col("kind").cast(pl.String).eq("mark") & pl.col("text").cast(
        pl.String
    ).str.starts_with(_AFFINITY)
    texts = events.filter(told)["text"].cast(pl.String).unique().to_list()
    width = (cpus + 63) // 64 * 8
    masks = {text: _mask(text.removeprefix(_AFFINITY), cpus, width) for text in texts}
    text = pl.col("text").cast(pl.String)
    return events.with_columns(
        kind=pl.when(told)
        .then(pl.lit("affinity"))
        .otherwise(pl.col("kind").cast(pl.String))
        .cast(events.schema["kind"]),
        cpu_mask=pl.when(told)
        .then(text.replace_strict(masks, default=None, return_dtype=pl.Binary))
        .otherwise(pl.col("cpu_mask")),
        text=pl.when(told).then(None).otherwise(pl.col("text")),
    )


def _mask(listed: str, cpus: int, width: int) -> bytes:
    members: Iterable[int] = range(cpus) if listed == "all" else parse_cpulist(listed)
    return sum(1 << c for c in members).to_bytes(width, "little")
