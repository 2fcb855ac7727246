"""Reads the counters of /proc/schedstat, from its text or from the file that `perf sched stats record` writes.

The text is that of kernel/sched/stats.c:show_schedstat (version 15 until 6.8, 16 until 6.14, then 17). The records of perf are
perf_record_schedstat_cpu and perf_record_schedstat_domain in tools/lib/perf/include/perf/event.h (7.0); in the first posted
patches their fields had another order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.recognisers import PERF_DATA

#: The counters of a CPU; the last three have 64 bits, the others have 32 bits.
CPU_FIELDS = (
    "yld_count", "array_exp", "sched_count", "sched_goidle", "ttwu_count", "ttwu_local", "rq_cpu_time", "run_delay", "pcount",
)  # fmt: skip
_BEFORE = ("lb_count", "lb_balanced", "lb_failed")
_AFTER = ("lb_gained", "lb_hot_gained", "lb_nobusyq", "lb_nobusyg")
_IMBALANCE = {
    15: ("lb_imbalance",),
    16: ("lb_imbalance",),
    17: ("lb_imbalance_load", "lb_imbalance_util", "lb_imbalance_task", "lb_imbalance_misfit"),
}
#: The kinds of idleness, in the order of enum cpu_idle_type (include/linux/sched/idle.h; CPU_IDLE was first in version 15).
IDLENESS = {
    15: ("idle", "busy", "newidle"),
    16: ("busy", "idle", "newidle"),
    17: ("busy", "idle", "newidle"),
}
_LAST = (
    "alb_count", "alb_failed", "alb_pushed", "sbe_count", "sbe_balanced", "sbe_pushed", "sbf_count", "sbf_balanced",
    "sbf_pushed", "ttwu_wake_remote", "ttwu_move_affine", "ttwu_move_balance",
)  # fmt: skip
#: Files with counters are small: 8,192 CPUs with six domains have 12 MB per sample.
_MOST_BYTES = 1 << 28


def domain_fields(version: int) -> tuple[str, ...]:
    """Return the names of a domain's counters, in the order of the file."""
    per_kind = (*_BEFORE, *_IMBALANCE[version], *_AFTER)
    return (*(f"{kind}_{name}" for kind in IDLENESS[version] for name in per_kind), *_LAST)


#: Name of a counter -> its value; None if the value is not known.
Counts = dict[str, int | None]


@dataclass(frozen=True)
class Domain:
    """A scheduling domain of a CPU: its name or number, its CPUs as a list (empty: not told), and its counters."""

    name: str
    cpus: str
    counts: Counts


@dataclass(frozen=True)
class Cpu:
    """The counters of a CPU and of its domains, the smallest first."""

    counts: Counts
    domains: tuple[Domain, ...]


@dataclass(frozen=True)
class Counters:
    """What was counted in a span of time."""

    source: str  #: what the counters come from, for sentences
    version: int  #: the version of /proc/schedstat
    jiffies: float  #: the length of the span, which begins at boot if ``since_boot``
    cpus: dict[int, Cpu]
    since_boot: bool = False  #: there was one sample only
    notes: tuple[str, ...] = ()  #: sentences about what these counters lack

    def since(self, before: Counters) -> Counters:
        """Return what was counted between two samples of one machine: ``before`` and this sample.

        Each of the two samples counts from the start of the machine.
        """
        fields = domain_fields(self.version)
        cpus = {
            n: Cpu(
                _less(cpu.counts, before.cpus[n].counts, CPU_FIELDS[:6]),
                tuple(
                    Domain(d.name, d.cpus, _less(d.counts, b.counts, fields))
                    for d, b in zip(cpu.domains, before.cpus[n].domains, strict=True)
                ),
            )
            for n, cpu in self.cpus.items()
        }
        return Counters(self.source, self.version, self.jiffies - before.jiffies, cpus)

    def follows(self, before: Counters) -> bool:
        """Tell whether this may be a later sample of the same machine: no counter of 64 bits has become less."""
        return (
            self.since_boot
            and before.since_boot
            and self.version == before.version
            and self.jiffies >= before.jiffies
            and self.cpus.keys() == before.cpus.keys()
            and all(
                len(cpu.domains) == len(before.cpus[n].domains)
                and all(
                    (cpu.counts[c] or 0) >= (before.cpus[n].counts[c] or 0) for c in CPU_FIELDS[6:]
                )
                for n, cpu in self.cpus.items()
            )
        )


def _less(now: Counts, before: Counts, narrow: tuple[str, ...]) -> Counts:
    """Subtract counters; a counter of 32 bits that overflows goes on from 0."""
    out: Counts = {}
    for name, value in now.items():
        difference = (value or 0) - (before[name] or 0)
        out[name] = difference & 0xFFFFFFFF if name in narrow else difference
    return out


def read_counters(path: Path) -> Counters | None:
    """Read a file with counters; None: the file is something else."""
    try:
        # a pipe can be read only once
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None  # opening it as a trace will say why
    if data.startswith(PERF_DATA):
        samples = list(_perf(data, path))
    elif re.match(rb"version 1[0-9]\r?\ntimestamp \d+", data):
        samples = _text(data.decode("ascii", "replace"), path)
    else:
        return None
    if not samples:
        return None
    first, last = samples[0], samples[-1]
    if len(samples) == 1:
        return first
    same = first.cpus.keys() == last.cpus.keys() and all(
        len(cpu.domains) == len(last.cpus[n].domains) for n, cpu in first.cpus.items()
    )
    if not same or first.version != last.version:
        raise TraceFormatError(
            f"{path}: its first and its last sample have different CPUs or domains, so they cannot be subtracted. Record again "
            "while no CPU is switched on or off."
        )
    return last.since(first)


def _checked(version: int, path: Path) -> int:
    if version not in IDLENESS:
        raise TraceFormatError(
            f"{path}: the counters have version {version}; expected {', '.join(map(str, IDLENESS))} (Linux 2.6.20 and later)."
        )
    return version


def _text(text: str, path: Path) -> list[Counters]:
    """Read samples of /proc/schedstat, one after the other."""
    out = []
    for sample in re.split(r"^(?=version \d+$)", text.replace("\r\n", "\n"), flags=re.MULTILINE)[
        1:
    ]:
        lines = [*sample.splitlines(), ""]
        version = _checked(int(lines[0].split()[1][:9]), path)
        fields, cpus, now = domain_fields(version), dict[int, Cpu](), -1
        for line in filter(str.strip, lines[2:]):
            word, *rest = line.split()
            try:
                if match := re.fullmatch(r"cpu(\d{1,5})", word):
                    now = int(match[1])
                    counts: Counts = dict(zip(CPU_FIELDS, map(int, rest), strict=True))
                    cpus[now] = Cpu(counts, ())
                elif re.fullmatch(r"domain\d{1,3}", word):
                    name = word.removeprefix("domain")
                    if version >= 17:
                        name = rest.pop(0)
                    mask = int(rest[0].replace(",", ""), 16)
                    if mask.bit_length() > MAX_CPUS:
                        raise ValueError
                    span = format_cpulist([c for c in range(mask.bit_length()) if mask >> c & 1])
                    counts = dict(zip(fields, map(int, rest[1:]), strict=True))
                    cpu = cpus[now]
                    cpus[now] = Cpu(cpu.counts, (*cpu.domains, Domain(name, span, counts)))
            except (ValueError, KeyError, IndexError):
                raise TraceFormatError(
                    f"{path}: not a line of /proc/schedstat, version {version}: {line[:80]!r}. The text was cut or changed: copy "
                    "it again."
                ) from None
        told = re.fullmatch(r"timestamp (\d{1,20})", lines[1])
        if not told or not cpus or max(cpus) >= MAX_CPUS:
            raise TraceFormatError(f"{path}: a sample of /proc/schedstat has no time or no CPU.")
        out.append(Counters("/proc/schedstat", version, int(told[1]), cpus, since_boot=True))
    return out


def has_counters(data: bytes) -> bool:
    """Tell whether a perf.data file has counters: no event attributes, and at most two kinds of records, numbered from 83 on."""
    if len(data) < 104 or struct.unpack_from("<Q", data, 32)[0]:
        return False
    kinds = {kind for kind, _ in _records(data)}
    return 0 < len(kinds) <= 2 and min(kinds) >= 83


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    at, size = struct.unpack_from("<2Q", data, 40)
    end = min(at + size, len(data))
    while at + 8 <= end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if length < 8 or at + length > end:
            return
        yield kind, data[at : at + length]
        at += length


def _perf(data: bytes, path: Path) -> Iterator[Counters]:
    """Read the samples in a perf.data file: records of CPUs, each followed by those of its domains."""
    if not has_counters(data):
        return
    of_cpu = min(kind for kind, _ in _records(data))  # the numbers differ between versions of perf
    cpus: dict[int, Cpu] = {}
    version, time = 0, 0
    for kind, record in _records(data):
        try:
            number, version, at, values, name = _fields(record, kind == of_cpu, path)
        except struct.error:
            raise TraceFormatError(
                f"{path}: a record of counters has {len(record)} bytes, which are too few. The file is damaged: copy or record "
                "it again."
            ) from None
        if kind == of_cpu:
            if number in cpus:
                yield Counters("perf sched stats record", version, time, cpus, since_boot=True)
                cpus = {}
            time = at if not cpus else time
            cpus[number] = Cpu(dict(zip(CPU_FIELDS, values, strict=True)), ())
        elif number in cpus:
            cpu = cpus[number]
            counts: Counts = dict(zip(domain_fields(version), values, strict=True))
            domain = Domain(name or str(len(cpu.domains)), "", counts)
            cpus[number] = Cpu(cpu.counts, (*cpu.domains, domain))
    if cpus:
        yield Counters("perf sched stats record", version, time, cpus, since_boot=True)


def _fields(record: bytes, is_cpu: bool, path: Path) -> tuple[int, int, int, tuple[int, ...], str]:
    """Return the CPU's number, the version, the time, the counters and the domain's name from a record of any version of perf."""

    def at(form: str, place: int) -> int:
        value: int = struct.unpack_from(form, record, place)[0]
        return value

    known = IDLENESS.keys()
    if at("<H", 20) in known:  # since 7.0: time, CPU, version, (domain,) counters
        number, version, time, begin, name = at("<I", 16), at("<H", 20), at("<Q", 8), 24, ""
    elif is_cpu:  # the order of the first posted patches: time, counters, CPU, version
        number, version, time, begin, name = at("<I", 64), at("<H", 68), at("<Q", 8), 16, ""
    else:  # version, time, CPU, domain, name, counters
        number, version, time, begin = at("<I", 24), at("<H", 8), at("<Q", 16), 48
        name = record[30:46].split(b"\0")[0].decode("ascii", "replace")
    _checked(version, path)
    if number >= MAX_CPUS:
        raise TraceFormatError(
            f"{path}: a record of counters names CPU {number}; there are at most {MAX_CPUS}."
        )
    form = "<6I3Q" if is_cpu else f"<{len(domain_fields(version))}I"
    return number, version, time, struct.unpack_from(form, record, begin), name
