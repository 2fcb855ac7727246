"""Traces and snapshots whose names were replaced: nothing of the names is left, and the answers are the same."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from support import perf_file
from support.typed import typed
from typer.testing import CliRunner

import wastedcores as wc
from wastedcores.capture.snapshot import take_with_tasks
from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import notebooks
from wastedcores.trace.pseudonyms import PUBLIC, Pseudonyms

KEY = "17" * 32
COMMS = ("comm", "prev_comm", "by_comm")


@pytest.fixture
def key(tmp_path):
    (tmp_path / "secret.key").write_text(KEY)
    return tmp_path / "secret.key"


def run(*words) -> str:
    register_verbs()
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exception is None, done.output
    return done.stdout


def names_of(trace) -> set[str]:
    """The names that tasks, people and programs gave."""
    found = {
        str(t)
        for c in COMMS
        for t in trace.events.select(pl.col(c).cast(pl.String).unique()).collect().to_series()
    }
    written = trace.events.filter(pl.col("kind").is_in(["mark", "exec"]))
    found |= set(written.select(pl.col("text").unique()).collect().to_series())
    found |= {t.comm for t in trace.header.tasks or ()}
    return {n for n in found - {None, "None"} if not PUBLIC.fullmatch(n)}


def everything(path: Path) -> bytes:
    """All texts of a Parquet trace."""
    trace = wc.open(path)
    texts = [trace.header.model_dump_json()]
    for c in (*COMMS, "text"):
        column = trace.events.select(pl.col(c).cast(pl.String).drop_nulls().unique())
        texts += column.collect().to_series().to_list()
    return "\n".join(texts).encode()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kernel-build", marks=pytest.mark.slow),
        "live-balancing-off",
        "overload-on-wakeup-buggy",
    ],
)
def test_no_name_is_left_and_the_verdict_is_the_same(name, key, tmp_path):
    before = wc.open(name)
    run("import", wc.fetch(name), "--pseudonyms", key, "-o", tmp_path / "t.parquet")
    after = wc.open(tmp_path / "t.parquet")
    text = everything(tmp_path / "t.parquet")
    assert names_of(before)
    assert not [n for n in names_of(before) if re.search(rb"\b%s\b" % re.escape(n.encode()), text)]
    assert names_of(after).isdisjoint(names_of(before))
    assert len(names_of(after)) == len(names_of(before))
    whole = [wc.check(t, whole=True) for t in (before, after)]
    for fact in (
        "verdict",
        "kind",
        "cpu_ns",
        "thread_ns",
        "busy_ns",
        "affinity_unknown",
        "evidence",
    ):
        assert getattr(whole[0], fact) == getattr(whole[1], fact), fact
    assert after.header.kinds == before.header.kinds


def test_one_key_gives_one_pseudonym_in_all_files_and_another_key_another(tmp_path):
    one, same, other = (Pseudonyms(bytes([k]) * 32) for k in (1, 1, 2))
    assert one.task("postgres") == same.task("postgres") != other.task("postgres")
    assert len(one.task("postgres")) <= 15  # TASK_COMM_LEN
    assert one.group("/a/b") == f"{one.group('/a')}/{one.name('b', 'group')}"
    assert one.task("kworker/3:1H") == "kworker/3:1H"
    assert one.task("perf") == "perf"


def test_a_key_is_made_for_its_owner_only_and_a_wrong_one_is_refused(tmp_path):
    made = tmp_path / "new.key"
    first = Pseudonyms.of_file(made).name("x")
    assert made.stat().st_mode & 0o777 == 0o600
    assert Pseudonyms.of_file(made).name("x") == first
    (tmp_path / "notes").write_text("buy milk")
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        Pseudonyms.of_file(tmp_path / "notes")
    with pytest.raises(WastedCoresError, match="Name a new file"):
        Pseudonyms.of_file(tmp_path / "no" / "folder")


def test_a_snapshot_names_nobody_and_fits_its_trace(key):
    names = Pseudonyms.of_file(key)
    taken = take_with_tasks()
    shared = names.facts(taken)
    text = shared.model_dump_json()
    assert shared.host != taken.host
    assert shared.boot_id != taken.boot_id
    assert len(shared.tasks) == len(taken.tasks)
    private = {t.comm for t in taken.tasks if not PUBLIC.fullmatch(t.comm or "")}
    assert private
    assert not [n for n in private if f'"{n}"' in text]
    groups = {p for t in taken.tasks for p in (t.cgroup, t.cpuset) if p and p != "/"}
    assert not [g for g in groups if f'"{g}"' in text]
    assert [t.allowed for t in shared.tasks] == [t.allowed for t in taken.tasks]


def test_boot_parameters_that_do_not_concern_the_scheduler_are_left_out(key):
    taken = take_with_tasks().model_copy(
        update={
            "boot_parameters": "BOOT_IMAGE=/vmlinuz root=UUID=12 isolcpus=2-3 quiet nohz_full=2-3"
        }
    )
    assert Pseudonyms.of_file(key).facts(taken).boot_parameters == "isolcpus=2-3 nohz_full=2-3"


def test_perf_data_with_a_host_and_a_command_line(key, tmp_path):
    def switch(at, before, state, after):
        (name, pid), (next_name, next_pid) = before, after
        values = (name, pid, 120, state, next_name, next_pid, 120)
        return perf_file.sample(10**12 + at, 0, pid, "sched_switch", *values)

    idle, task = (b"swapper/0", 0), (b"payroll", 10)
    data = switch(0, idle, 0, task) + switch(500, task, 1, idle)
    command = (b"/usr/bin/perf", b"sched", b"record", b"--", b"payroll-run")
    whole = perf_file.file_of(data, 1, host=b"accounts-7", command=command)
    (tmp_path / "perf.data").write_bytes(whole)
    before = wc.open(tmp_path / "perf.data")
    assert before.header.host == "accounts-7"
    assert before.header.provenance["source cmdline"].endswith("record -- payroll-run")
    run("import", tmp_path / "perf.data", "--pseudonyms", key, "-o", tmp_path / "t.parquet")
    text = everything(tmp_path / "t.parquet").decode()
    assert "perf.data" not in json.loads(text.splitlines()[0])["provenance"].values()
    assert "accounts" not in text
    assert "payroll" not in text


def test_the_trace_to_read_is_not_replaced(key, tmp_path):
    trace = Path(shutil.copy(wc.fetch("live-balancing-off"), tmp_path / "run.parquet"))
    before = trace.read_bytes()
    done = typed("import", trace, "--pseudonyms", key, "-o", trace)
    assert done.code == 2
    assert "this is the trace to read itself" in done.err
    assert trace.read_bytes() == before


@pytest.mark.slow
def test_a_report_names_nobody(key, tmp_path):
    place = tmp_path / "josé & anna" / "r"
    run("report", "live-balancing-off", "--pseudonyms", key, "-o", place, "-q", "--set", "seeds=0")
    # words of every report, such as the language of the notebook, are no names
    usual = (notebooks() / "01_is_my_machine_wasting.ipynb").read_text()
    private = {
        n for n in names_of(wc.open("live-balancing-off")) if n not in usual and n != "python3"
    }
    assert "burn" in private
    for file in place.iterdir():
        text = file.read_text("utf-8")
        assert "live-balancing-off" not in text
        assert str(tmp_path) not in text
        assert not re.search("anna|jos(é|\\\\)", text)
        # the page is made of the notebook and of libraries, whose code has all short words
        if file.suffix != ".html":
            assert not [n for n in private if re.search(rf"\b{re.escape(n)}\b", text)]
