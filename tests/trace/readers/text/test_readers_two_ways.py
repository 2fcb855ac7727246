"""The compiled scanner, the patterns and a plain Python reader give the same events."""

from __future__ import annotations

import lzma
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import RECORDINGS, TRACE_GOLDEN
from support.line_oracle import parse
from support.summary import summary

from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.support import text_reading
from wastedcores.trace.readers.text import scan

GUESTS = (
    "gi-buggy-16cpu",
    "gi-6.1-64cpu",
    "lu60R4-buggy-64cpu",
    "ms-buggy-64cpu",
    "db16-buggy-16cpu",
)


def read(path: Path, monkeypatch: pytest.MonkeyPatch, scan_from: int) -> dict:
    monkeypatch.setattr(scan, "WORTHWHILE_BYTES", scan_from)
    return summary(open_trace(path))


@pytest.mark.slow
@pytest.mark.parametrize("guest", GUESTS)
def test_guest_recordings_read_as_by_the_plain_reader(guest, monkeypatch):
    path = RECORDINGS / guest / "trace.txt.xz"
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    want = [e for line in lines if not line.startswith("#") and (e := parse(line, perf=False))]
    want.sort(key=lambda e: e["ts_ns"])
    patterns = read(path, monkeypatch, 1 << 40)
    assert patterns["events"] == want
    assert patterns["header"]["cpus"] == int(guest.rpartition("-")[2].removesuffix("cpu"))
    # small blocks: every block boundary falls into the file somewhere
    monkeypatch.setattr(text_reading, "BLOCK_BYTES", 70_001)
    assert read(path, monkeypatch, 0) == patterns


@pytest.mark.parametrize("scan_from", [0, 1 << 40])
def test_kernels_with_the_patch_for_real_time_print_two_flags_more(
    tmp_path, monkeypatch, scan_from
):
    golden = TRACE_GOLDEN / "ftrace_6.1_tgid.txt"
    text = golden.read_text()
    # need-resched-lazy behind need-resched, and preempt-lazy-depth behind preempt-depth
    patched, n = re.subn(r"(\] [dD.].)(..)(.) ", r"\1L\g<2>1\3 ", text)
    assert n == len(re.findall(r"\[\d{3}\]", text)) > 2
    path = tmp_path / "t.txt"
    path.write_text(patched)
    events = read(path, monkeypatch, scan_from)["events"]
    assert events == read(golden, monkeypatch, scan_from)["events"] != []
    # the same in the latency format, which prints neither brackets nor the thread group
    form = r"(?m)^(.*-\d+) .*\[0*(\d+)\] (\S+) +(\d+\.\d+):"
    old, new = (re.sub(form, r"\1   \2\3 \4:", t) for t in (text, patched))
    assert " 1d.L.21. " in new
    assert " 1d..2. " in old
    path.write_text(new)
    events = read(path, monkeypatch, scan_from)["events"]
    path.write_text(old)
    assert events == read(path, monkeypatch, scan_from)["events"] != []


# a comm of the kernel: up to 15 bytes of anything but a line end; spaces at its ends cannot be told from padding
COMM = st.one_of(
    st.sampled_from(
        [
            "a ==> b",
            "x-1 [002] 3: y",
            "prev_pid=1",
            "a pid=3",
            "] [",
            "é:ü",
            "...",
            "0",
            "a=b",
            "1-2",
            ": :",
            "k/0:1H",
        ]
    ),
    st.text(
        st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), max_size=15
    ).map(str.strip),
).filter(lambda c: 0 < len(c.encode()) <= 15 and c != "<...>")
PID = st.integers(0, 4194304)
PRIO = st.integers(0, 139)
CPU = st.integers(0, 1023)


@st.composite
def events(draw):
    """Draw the name of an event and its fields in the kernel's spelling."""
    name = draw(
        st.sampled_from(
            [
                "sched_switch",
                "sched_wakeup",
                "sched_wakeup_new",
                "sched_migrate_task",
                "sched_process_fork",
                "sched_process_exit",
                "cpu_idle",
                "sched_stat_runtime",
            ]
        )
    )
    task = f"comm={draw(COMM)} pid={draw(PID)} prio={draw(PRIO)}"
    if name == "sched_switch":
        state = draw(st.sampled_from(["R", "R+", "S", "D", "x", "Z", "D|W", "I"]))
        return name, (
            f"prev_comm={draw(COMM)} prev_pid={draw(PID)} prev_prio={draw(PRIO)} prev_state={state} ==> "
            f"next_comm={draw(COMM)} next_pid={draw(PID)} next_prio={draw(PRIO)}"
        )
    if name in ("sched_wakeup", "sched_wakeup_new"):
        success = draw(st.sampled_from(["", " success=1", " success=0"]))
        return name, f"{task}{success} target_cpu={draw(CPU):03d}"
    if name == "sched_migrate_task":
        return name, f"{task} orig_cpu={draw(CPU)} dest_cpu={draw(CPU)}"
    if name == "sched_process_fork":
        return (
            name,
            f"comm={draw(COMM)} pid={draw(PID)} child_comm={draw(COMM)} child_pid={draw(PID)}",
        )
    if name == "sched_process_exit":
        return name, task + draw(st.sampled_from(["", " group_dead=true", " group_dead=false"]))
    if name == "cpu_idle":
        return name, f"state={draw(st.sampled_from([0, 3, 2**32 - 1]))} cpu_id={draw(CPU)}"
    return name, f"comm={draw(COMM)} pid={draw(PID)} runtime=7 [ns]"


@st.composite
def files(draw):
    """Draw lines of ftrace text or of perf script in the order of time."""
    perf = draw(st.booleans())
    lines = []
    ns = draw(st.integers(0, 10**15))
    fraction = draw(st.sampled_from([6, 9]))
    for name, fields in draw(st.lists(events(), min_size=1, max_size=12)):
        ns += draw(st.integers(0, 5000))
        stamp = f"{ns // 10**9:5d}.{f'{ns % 10**9:09d}'[:fraction]}"
        comm, pid, cpu = draw(COMM | st.just("<...>")), draw(PID), draw(CPU)
        if perf and name == "sched_switch":
            # a switch by thread 0 away from another one tells that perf was in a container
            pid = max(pid, 1)
        if perf:
            group = "power" if name == "cpu_idle" else "sched"
            lines.append(
                f"{comm:>16s} {pid:7d} [{cpu:03d}] {stamp}: {group + ':' + name:>30s}: {fields}"
            )
        else:
            tgid = draw(st.sampled_from(["", "(-------) ", "(     19) "]))
            flags = draw(
                st.sampled_from(
                    ["d...", "d..2.", "dNs4.", "d.h2.", "dNH3.", "d.Z1.", "d.Lh1.", "dnLh511"]
                )
            )
            lines.append(
                f"{comm:>16s}-{pid:<7d} {tgid}[{cpu:03d}] {flags} {stamp}: {name}: {fields}"
            )
    return perf, lines


@pytest.mark.slow
@settings(max_examples=150)
@given(files())
def test_generated_lines_read_the_same_all_three_ways(tmp_path_factory, file):
    perf, lines = file
    want = sorted((e for line in lines if (e := parse(line, perf))), key=lambda e: e["ts_ns"])
    path = tmp_path_factory.mktemp("lines") / "t"
    path.write_text("\n".join(lines) + "\n", newline="\n")
    if not {e["kind"] for e in want} - {"cpu_idle", "fork", "exit"}:  # such a file is refused
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        patterns = read(path, monkeypatch, 1 << 40)
        assert patterns["events"] == want
        assert read(path, monkeypatch, 0) == patterns
    assert Counter(e["kind"] for e in want)["switch"] == 0 or patterns["header"]["every_switch"]
