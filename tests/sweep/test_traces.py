"""Many traces become one table, from a folder, a list, or URLs; a worker that dies costs no trace."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest
from support import ROOT, TRACE_GOLDEN
from support.typed import typed
from support.waiting import wait_for

from wastedcores.errors import UsageError
from wastedcores.invariant import check
from wastedcores.reports.fleet import _map, _summary, fleet_page
from wastedcores.sweep import execute, sweep
from wastedcores.sweep.store import table_of
from wastedcores.sweep.traces import check_once, find_traces, ranked, runs_of
from wastedcores.trace.io import open_trace

SMALL = ROOT / "datasets" / "small"
NAMES = ("live-balancing-off", "live-balancing-on", "group-construction-fixed")


@pytest.fixture
def folder(tmp_path):
    """Two machines' folders with three traces, and files that are none."""
    traces = tmp_path / "traces"
    for machine, names in (("one", NAMES[:2]), ("two", NAMES[2:])):
        (traces / machine).mkdir(parents=True)
        for name in names:
            path = shutil.copy(SMALL / f"{name}.parquet", traces / machine)
            os.utime(path, (1_700_000_000, 1_700_000_000))
    (traces / "README.md").write_text("about")
    (traces / ".hidden").write_text("no trace")
    return traces


@pytest.mark.slow
def test_a_row_per_trace_says_what_check_says(folder, tmp_path):
    found = find_traces(str(folder))
    assert [f.name.rsplit("/", 2)[1] for f in found] == ["one", "one", "two"]
    table = sweep(runs_of(found), tmp_path / "t.parquet", workers=1, progress=False)
    assert table["error"].null_count() == table.height == 3
    for row in table.iter_rows(named=True):
        alone = check(open_trace(row["trace"]))
        assert row["verdict"] == alone.verdict
        assert row["wasted_cpu_s"] == alone.thread_ns / 1e9
        assert row["wasted_cpus"] == pytest.approx(alone.mean(alone.thread_ns))
        assert row["events"] == alone.trace.header.events
        assert row["longest_s"] == alone.longest_ns / 1e9
    worst = ranked(table, "host")
    assert worst["wasted_cpus"].is_sorted(descending=True)
    assert worst["wasted_cpu_s"].sum() == pytest.approx(table["wasted_cpu_s"].sum())


def test_a_folder_with_a_hash_in_its_name_is_a_machine_of_its_own(tmp_path):
    trace = tmp_path / "rack#1" / "trace.txt"
    trace.parent.mkdir()
    shutil.copy(TRACE_GOLDEN / "perf_script.txt", trace)
    (run,) = runs_of(find_traces(str(trace)))
    assert execute(run.task, run.arguments)["host"] == "rack#1"


def test_a_trace_that_changed_is_checked_again(folder, tmp_path):
    before = {r.key for r in runs_of(find_traces(str(folder)))}
    path = next(folder.glob("two/*.parquet"))
    shutil.copy(SMALL / "group-construction-buggy.parquet", path)
    assert len(before - {r.key for r in runs_of(find_traces(str(folder)))}) == 1
    other = {r.key for r in runs_of(find_traces(str(folder)), persist_ns=1)}
    assert not before & other


def test_what_the_product_writes_beside_traces_is_no_trace(folder):
    """`watch` writes text and a notebook beside its recordings, and `fleet .` its table."""
    evidence = shutil.copy(folder / "one" / f"{NAMES[0]}.parquet", folder / "violation-1.parquet")
    for name in ("violation-1.txt", "violation-1.json", "report.ipynb", "w.prom", "watch.toml"):
        (folder / name).write_text("about it")
    table = shutil.copy(evidence, folder / "fleet.parquet")
    (folder / "ftrace.txt").write_text("a trace of its own")
    found = [f.name.rsplit("/", 1)[1] for f in find_traces(str(folder), Path(table))]
    assert found[:2] == ["ftrace.txt", f"{NAMES[0]}.parquet"]
    assert len(found) == 5
    assert found[-1] == "violation-1.parquet"
    assert len(find_traces(str(folder))) == 6


@pytest.mark.parametrize("named", ["folder", "list"])
def test_a_name_that_is_no_text_spoils_no_table(tmp_path, named):
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / os.fsdecode(b"caf\xe9.txt")).write_text("no trace at all")
    names = tmp_path / "traces.list"
    names.write_bytes(os.fsencode(traces) + b"/caf\xe9.txt\n")
    (run,) = runs_of(find_traces(str(traces if named == "folder" else names)))
    table = table_of([(run, execute(run.task, run.arguments))])
    assert table["trace"][0].endswith("/caf\\udce9.txt")
    assert "not a trace" in table["error"][0]


@pytest.mark.slow
def test_the_table_and_the_page_of_a_folder(folder, tmp_path):
    (folder / "one" / "broken.dat").write_bytes(b"no trace at all")
    out, page = tmp_path / "t.parquet", tmp_path / "t.html"
    done = typed("fleet", folder, "-o", out, "--page", page, "--workers", "1", "-q")
    table = pl.read_parquet(out)
    verdicts = table["verdict"].drop_nulls().to_list()
    assert "violations" in verdicts
    assert done.code == 1, done.out
    assert "1 not checked" in done.out
    (error,) = table.filter(pl.col("error").is_not_null())["error"]
    assert "not a trace" in error
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    for row in table.iter_rows(named=True):
        assert row["trace"].removeprefix(f"{folder}/") in text
    assert "Not checked" in text
    # the machine that wasted most comes first
    worst = ranked(table, "host")["host"].to_list()
    assert sorted(worst, key=text.index) == worst


def test_a_summary_reads_well_for_one_trace_and_for_many():
    row = {"error": None, "seconds": 2.0, "wasted_cpu_s": 1.0, "verdict": "clean", "host": "a"}
    assert _summary(pl.DataFrame([row]), "traces").startswith("1 trace of 1 machine, 2 s recorded:")
    two = pl.DataFrame([row, row | {"host": "b"}])
    assert _summary(two, "machine hours").startswith("2 machine hours of 2 machines, 4 s recorded:")


def test_a_machine_without_a_verdict_has_no_number(tmp_path):
    rows = [("a", "clean", 1.0, 10.0), ("a", "unknown", 0.0, 90.0), ("b", "unknown", 0.0, 50.0)]
    table = pl.DataFrame(rows, ["host", "verdict", "wasted_cpu_s", "seconds"], orient="row")
    table = table.with_columns(
        pl.lit(None, pl.String).alias("error"), wasted_cpus=pl.col("wasted_cpu_s") / pl.col("seconds"),
        kernel=pl.lit("6.1"), began=pl.lit("2026-01-01T00:00"), began_from=pl.lit("clock"), note=pl.lit(""),
        trace=pl.col("host") + "/t", longest_s=0.0,
    )  # fmt: skip
    assert ranked(table, "host").select("host", "wasted_cpus").rows() == [("a", 0.1), ("b", None)]
    said = _summary(table, "traces")
    assert "150 s recorded: 1 CPU-seconds wasted, 0.1 CPUs on average of the 10 s whose" in said
    assert "how many CPUs were wasted is not known. Verdicts: 1 unknown." in _summary(
        table.tail(1), "traces"
    )
    text = fleet_page(table, "t")
    assert 'title="b, 2026-01-01 00 h: CPUs wasted: unknown">?</td>' in text
    assert "hsl(318 60% 40%)" in text
    assert text.count('<td class="wc-short">unknown</td>') >= 4  # the machine and two traces


def test_a_page_without_any_result_says_so():
    table = pl.DataFrame({"trace": ["a"], "error": ["it is <empty>"]})
    assert "None of 1 trace could be checked." in fleet_page(table, "t")
    assert "it is &lt;empty&gt;" in fleet_page(table, "t")


@pytest.mark.slow
def test_only_an_error_is_exit_status_2(folder, tmp_path):
    (folder / "one").rename(tmp_path / "away")
    (folder / "two" / "broken.dat").write_bytes(b"no trace at all")
    verdict = check(open_trace(SMALL / f"{NAMES[2]}.parquet")).verdict
    assert verdict != "violations"
    done = typed("fleet", folder, "-o", tmp_path / "t.parquet", "--workers", "1", "-q")
    assert done.code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fleet", "nowhere", "-o", "{out}"), "no such folder"),
        (("fleet", "{empty}", "-o", "{out}"), "no trace is in it"),
        (("fleet", "-o", "{out}"), "Missing argument 'DIR'"),
        (("fleet", "{empty}", "-o", "{out}", "--cpus", "1"), "No such option: --cpus"),
        (("fleet", "nosuch://bucket/x", "-o", "{out}"), "nosuch"),
    ],
)
def test_bad_use(words, said, tmp_path):
    (tmp_path / "empty").mkdir()
    done = typed(*(w.format(out=tmp_path / "t.parquet", empty=tmp_path / "empty") for w in words))
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert not (tmp_path / "t.parquet").exists()


def test_a_list_of_lists_is_read_and_one_that_names_itself_is_refused(folder, tmp_path):
    inner, outer = tmp_path / "inner.list", tmp_path / "outer.list"
    inner.write_text(f"{folder}\n")
    outer.write_text(f"{inner}\n")
    assert find_traces(str(outer)) == find_traces(str(folder))
    first = next(folder.glob("one/*.parquet"))
    outer.write_text(f"{inner}\n{first}\n{folder}/one/../one/{first.name}\n{inner}\n")
    assert find_traces(str(outer)) == find_traces(str(folder))
    inner.write_text(f"{outer}\n")
    with pytest.raises(UsageError, match="the list names itself"):
        find_traces(str(outer))


def test_urls_of_a_list_are_read(folder, tmp_path):
    """The first line names a path, the second a URL of a server on this machine."""
    pytest.importorskip("fsspec")
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/two/{NAMES[2]}.parquet"
    names = tmp_path / "traces.list"
    names.write_text(f"# two traces\n{folder}/one/{NAMES[0]}.parquet\n{url}\n")
    try:
        found = find_traces(str(names))
        assert [f.name for f in found] == [str(folder / "one" / f"{NAMES[0]}.parquet"), url]
        row = check_once(**dict(runs_of(found)[1].arguments))
    finally:
        server.shutdown()
        server.server_close()
    assert row["events"] == open_trace(SMALL / f"{NAMES[2]}.parquet").header.events
    assert row["verdict"] == check(open_trace(SMALL / f"{NAMES[2]}.parquet")).verdict


def test_a_folder_behind_a_url_is_searched():
    """fsspec's own file system in memory stands for a bucket."""
    fsspec = pytest.importorskip("fsspec")
    access = fsspec.filesystem("memory")
    for name in ("b/one/x.parquet", "b/two.json", "b/.hidden"):
        with access.open(f"/{name}", "wb") as file:
            file.write((SMALL / f"{NAMES[0]}.parquet").read_bytes())
    (found,) = find_traces("memory://b")
    assert found.name == "memory:///b/one/x.parquet"
    assert found.bytes == (SMALL / f"{NAMES[0]}.parquet").stat().st_size
    row = check_once(**dict(runs_of([found])[0].arguments))
    assert row["verdict"] == check(open_trace(SMALL / f"{NAMES[0]}.parquet")).verdict
    with pytest.raises(UsageError, match="cannot be read"):
        find_traces("memory://nowhere")


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_each_trace_is_in_the_table_once_although_a_worker_is_killed(folder, tmp_path, cluster):
    address, (_, doomed, _) = cluster
    for i in range(30):
        shutil.copy(SMALL / f"{NAMES[i % 3]}.parquet", folder / "one" / f"copy{i}.parquet")
    out = tmp_path / "t.parquet"
    kept = out.with_name("t.parquet.runs")

    def kill_in_the_middle():
        wait_for(lambda: kept.is_dir() and len(list(kept.glob("*.json"))) >= 5, 120)
        doomed.kill()

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    found = find_traces(str(folder))
    table = sweep(runs_of(found), out, scheduler=address, progress=False)
    killer.join()
    assert doomed.wait(timeout=5) == -signal.SIGKILL
    assert table["trace"].to_list() == [f.name for f in found]
    assert table["error"].null_count() == len(found) == 33
    assert set(table["verdict"]) <= {"violations", "clean", "unknown"}
    assert table.group_by("bytes").agg(pl.col("wasted_cpu_s").n_unique())[
        "wasted_cpu_s"
    ].to_list() == [1, 1, 1]


def test_the_map_says_what_it_leaves_out_and_its_darkest_cell_is_drawn():
    hours = [f"2026-01-{1 + h // 24:02}T{h % 24:02}:00" for h in range(49)]
    table = pl.DataFrame(
        {
            "host": "a",
            "began": hours,
            "wasted_cpu_s": [40.0] + [1.0] * 48,
            "seconds": 1.0,
            "verdict": "clean",
            "longest_s": 0.0,
        }
    ).with_columns(error=pl.lit(None, pl.String))
    text = _map(table)
    assert "The darkest cell is 1 CPUs" in text
    assert "The map has the last 48 of 49 hours." in text
    assert "hsl(318 60% 40%)" in text
    assert "The map has" not in _map(table.tail(48))
