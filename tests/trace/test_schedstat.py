"""Counters of /proc/schedstat: all numbers are those that perf printed about the same files, and replays count the same."""

from __future__ import annotations

import json
import lzma
import re
import struct
from pathlib import Path

import pytest
from support.builders import switch, trace_of, wakeup
from typer.testing import CliRunner

from wastedcores.analysis.schedstat import counted
from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import TraceFormatError
from wastedcores.simulator import replay_scenario
from wastedcores.trace.schedstat import CPU_FIELDS, IDLENESS, domain_fields, read_counters
from wastedcores.words.schedstat import summary, table

HERE = Path(__file__).parent / "schedstat"
FOREIGN = Path(__file__).parent / "foreign" / "files"
VERSIONS = {"6.8.12-default": 15, "6.12.29-default": 16, "6.15.rc5-default": 17}


def text_of(name: str) -> str:
    return lzma.decompress((HERE / f"{name}.xz").read_bytes()).decode()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schedstat")
    packed = {
        p.name.removeprefix("perf-k").removesuffix(".data.xz"): p for p in HERE.glob("*.data.xz")
    }
    packed["6.12.29-default"] = FOREIGN / "perf.data--aws-schedstats-6.12.29-default.data.xz"
    found = {}
    for name, file in packed.items():
        found[name] = folder / f"{name}.data"
        found[name].write_bytes(lzma.decompress(file.read_bytes()))
    return found


def rows(lines) -> dict[str, list[list[str]]]:
    """What a report says per part (a CPU, or its domain): what stands behind the colon of each line, in its order."""
    parts: dict[str, list[list[str]]] = {}
    for line in lines:
        if match := re.match(r"CPU (<ALL CPUS SUMMARY>|\d+)(, DOMAIN \w+)?", line):
            part = parts.setdefault(match[0], [])
        elif re.match(r"\S.{63,64} *: ", line) and not line.startswith("Time"):
            part.append(re.findall(r"-?[\d.]+", line.rpartition(": ")[2]))
    return parts


@pytest.mark.parametrize("name", VERSIONS)
def test_every_cpu_has_the_numbers_that_perf_printed(recordings, name):
    found = read_counters(recordings[name])
    assert found.version == VERSIONS[name]
    want = rows(text_of(f"perf-k{name}.report").splitlines())
    got = rows(table(found, cpus=True))
    assert len(want) == 2 + 2 * 16
    for part in want:
        if part.startswith("CPU <"):
            continue  # the mean, below
        # the words of a line are ours, so lines are compared by their order
        assert got[part] == want[part], part


@pytest.mark.parametrize("name", VERSIONS)
def test_the_mean_is_that_of_all_cpus(recordings, name):
    """perf divided by one CPU less when the reports were made, and by all of them since 7.0."""
    found = read_counters(recordings[name])
    want = rows(text_of(f"perf-k{name}.report").splitlines())["CPU <ALL CPUS SUMMARY>"]
    sums = [sum(cpu.counts[f] for cpu in found.cpus.values()) for f in CPU_FIELDS]
    assert [int(row[0]) for row in want] == [s // 15 for s in sums]
    assert list(summary(found).counts.values()) == [s // 16 for s in sums]


def test_the_difference_of_two_runs_is_the_published_one(recordings):
    runs = [read_counters(recordings[f"6.15.{rc}-default"]) for rc in ("rc4", "rc5")]
    lines = list(table(*runs))
    want = text_of("rc4-rc5.diff").splitlines()
    for part, mine in rows(lines).items():
        theirs = rows(want)[part]
        assert len(mine) == len(theirs)
        for ours, published in zip(mine, theirs, strict=True):
            # percentages have two decimals; a mean of 16 instead of 15 CPUs rounds otherwise, so only large numbers agree
            if float(published[0]) > 20_000:
                assert float(ours[2]) == pytest.approx(float(published[2]), abs=0.02)
                assert [float(x) for x in ours[:2]] == pytest.approx(
                    [15 / 16 * float(x) for x in published[:2]], rel=1e-4
                )
    assert lines[0] == f"{'Time elapsed (in jiffies)':<65}:      150000,     150001"


def proc(version: int, time: int, add: int, cpus: int = 2) -> str:
    """A text of /proc/schedstat."""
    lines = [f"version {version}", f"timestamp {time}"]
    for cpu in range(cpus):
        lines.append(f"cpu{cpu} " + " ".join(str(i + add) for i in range(9)))
        name = " MC" if version >= 17 else ""
        values = " ".join(str(100 * i + add) for i in range(len(domain_fields(version))))
        lines.append(f"domain0{name} 00000003 {values}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", IDLENESS)
def test_texts_of_the_kernel_are_subtracted(tmp_path, version):
    before, after, both = (tmp_path / n for n in ("before", "after", "both"))
    before.write_text(proc(version, 1000, 5))
    after.write_text(proc(version, 1250, 12))
    both.write_text(proc(version, 1000, 5) + proc(version, 1250, 12))
    first, second, whole = map(read_counters, (before, after, both))
    assert first.since_boot
    assert second.follows(first)
    assert not first.follows(second)
    for found in (second.since(first), whole):
        assert found.jiffies == 250
        assert {v for cpu in found.cpus.values() for v in cpu.counts.values()} == {7}
        assert {v for cpu in found.cpus.values() for v in cpu.domains[0].counts.values()} == {7}
        assert found.cpus[1].domains[0].cpus == "0-1"
        assert found.cpus[1].domains[0].name == ("MC" if version == 17 else "0")


def test_counters_of_32_bits_begin_again(tmp_path):
    before, after = proc(15, 1, 2**32 - 10), proc(15, 2, 2**32 + 4).replace(str(2**32 + 4), "4", 1)
    both = tmp_path / "both"
    both.write_text(before + after)
    assert read_counters(both).cpus[0].counts["yld_count"] == 14


def test_records_of_perf_7_are_read(tmp_path):
    """Its order of fields, of which no recording is at hand: tools/lib/perf/include/perf/event.h."""
    records = b""
    for time, add in ((100, 0), (400, 9)):
        for cpu in range(3):
            body = struct.pack(
                "<QIHH6I3Q",
                time,
                cpu,
                17,
                0,
                *(i + add for i in range(6)),
                2**40 + add,
                add,
                8 + add,
            )
            records += struct.pack("<IHH", 85, 0, 8 + len(body)) + body
            body = struct.pack(
                "<QIHH45I", time, cpu, 17, 0, *(1000 + i + add for i in range(45))
            ) + bytes(4)
            records += struct.pack("<IHH", 86, 0, 8 + len(body)) + body
    head = b"PERFILE2" + struct.pack("<7Q", 104, 144, 104, 0, 104, len(records), 0) + bytes(40)
    file = tmp_path / "perf.data"
    file.write_bytes(head + records)
    found = read_counters(file)
    assert found.jiffies == 300
    assert list(found.cpus) == [0, 1, 2]
    assert set(found.cpus[2].counts.values()) == {9}
    assert set(found.cpus[2].domains[0].counts.values()) == {9}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("version 12\ntimestamp 5\ncpu0 1 2 3\n", "version 12; expected 15, 16, 17"),
        ("version 15\ntimestamp 5\ncpu0 1 2 3\n", "not a line of /proc/schedstat"),
        ("version 15\ntimestamp 5\ndomain0 3 " + "1 " * 36 + "\n", "not a line of /proc/schedstat"),
        ("version 15\ntimestamp 5\n", "no time or no CPU"),
        (proc(15, 1, 1) + proc(15, 2, 1, cpus=1), "different CPUs or domains"),
    ],
)
def test_damaged_counters_are_refused_in_words(tmp_path, text, match):
    file = tmp_path / "schedstat"
    file.write_text(text)
    with pytest.raises(TraceFormatError, match=match):
        read_counters(file)


def test_a_cut_recording_is_refused_in_words(recordings, tmp_path):
    data = bytearray(recordings["6.8.12-default"].read_bytes())
    data[104 + 6 : 104 + 8] = struct.pack("<H", 12)
    file = tmp_path / "cut"
    file.write_bytes(data)
    with pytest.raises(TraceFormatError, match="too few"):
        read_counters(file)


def test_a_trace_is_counted_as_the_kernel_would():
    trace = trace_of(
        [
            switch(0, 0, 0, "R", 5), wakeup(1_000_000, 0, 6, src_cpu=0), wakeup(1_500_000, 1, 7, src_cpu=0),
            switch(1_600_000, 1, 0, "R", 7), switch(3_000_000, 0, 5, "S", 6), switch(4_000_000, 0, 6, "S", 0),
            switch(5_600_000, 1, 7, "S", 0), switch(10_000_000, 0, 0, "R", 5),
        ],
        cpus=2,
    )  # fmt: skip
    found = counted(trace, hz=1000)
    assert found.jiffies == 10
    zero, one = found.cpus[0].counts, found.cpus[1].counts
    assert zero == {
        "yld_count": None, "array_exp": None, "sched_count": 4, "sched_goidle": 1, "ttwu_count": 2, "ttwu_local": 1,
        "rq_cpu_time": 4_000_000, "run_delay": 2_000_000, "pcount": 3,
    }  # fmt: skip
    assert (one["rq_cpu_time"], one["run_delay"], one["ttwu_count"]) == (4_000_000, 100_000, 0)


@pytest.mark.slow
def test_a_replay_counts_its_calls_of_the_balancer():
    run = replay_scenario("group-imbalance", given={"jobs": "60"}, decisions=True)
    found = counted(run.trace)
    calls = run.balance_calls
    for kind in ("busy", "idle", "newidle"):
        mine = calls.filter(calls["idle"] == kind)
        counts = [d.counts for cpu in found.cpus.values() for d in cpu.domains]
        assert sum(c[f"{kind}_lb_count"] for c in counts) == int(mine["calls"].sum())
        failed = mine.filter(mine["result"].is_in(["failed", "active"]))
        assert sum(c[f"{kind}_lb_failed"] for c in counts) == int(failed["calls"].sum())
    names = [d.name for d in found.cpus[0].domains]
    assert names[:2] == ["SMT", "MC"]
    spans = [d.cpus for d in found.cpus[0].domains]
    assert spans[0] == "0-1"
    moved = run.trace.only("wakeup").collect()
    remote = moved.filter(
        moved["src_cpu"].is_not_null() & (moved["src_cpu"] != moved["cpu"])
    ).height
    known = sum(
        c.get("ttwu_wake_remote") or 0
        for cpu in found.cpus.values()
        for c in (d.counts for d in cpu.domains)
    )
    assert 0 < known <= remote


def test_every_domain_that_balanced_has_its_cpus():
    given = {"jobs": "60"}
    run = replay_scenario("group-imbalance", "v4.1", "bd-paper-64", 1, given, decisions=True)
    for cpu in counted(run.trace).cpus.values():
        assert all(d.cpus for d in cpu.domains)
        names = [d.name for d in cpu.domains]
        assert "NUMA" not in names
        assert any(name.startswith("NUMA<=") for name in names)


def test_the_commands_print_name_and_refuse(recordings, tmp_path):
    register_verbs()
    run, file = CliRunner(), recordings["6.15.rc4-default"]
    done = run.invoke(app, ["info", str(file)])
    assert done.exit_code == 0
    assert "counters of the scheduler, version 17" in done.output
    assert "wastedcores schedstat" in done.output
    # words that COLUMNS would wrap are told by their class
    done = run.invoke(app, ["check", str(file)])
    assert isinstance(done.exception, TraceFormatError)
    assert "not whether a CPU was idle" in str(done.exception)
    assert f"`wastedcores schedstat {file.name}`" in str(done.exception)
    done = run.invoke(app, ["schedstat", str(file), str(recordings["6.15.rc5-default"]), "--json"])
    found = json.loads(done.stdout)["runs"]
    assert [r["jiffies"] for r in found] == [150_000, 150_001]
    assert found[0]["cpus"]["3"]["domains"][0]["name"] == "MC"
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(proc(17, 1000, 5))
    after.write_text(proc(17, 1250, 12))
    done = run.invoke(app, ["schedstat", str(before), str(after), "--explain"])
    assert "COUNT2" not in done.output
    assert re.search(r"Time elapsed \(in jiffies\) +: +250", done.output)
