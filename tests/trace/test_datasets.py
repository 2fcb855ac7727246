"""A data set's name becomes a file with the digest that the registry states."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading

import pytest

import wastedcores.trace.named as ds
from wastedcores.analysis.examined import examine
from wastedcores.errors import DatasetError
from wastedcores.trace.io import open_trace

NAMES = sorted(ds.registry())


def test_bundled_sets_are_small_and_described():
    files = {p.name for p in (ds.folder() / "small").glob("*.parquet")}
    assert files == {e.file for e in ds.registry().values() if e.url is None}
    assert sum((ds.folder() / "small" / f).stat().st_size for f in files) < 2_500_000
    readme = (ds.folder() / "README.md").read_text()
    for name in NAMES:
        assert re.search(
            rf"^\| {name} \|.*`{ds.registry()[name].sha256[:16]}", readme, re.MULTILINE
        ), name


@pytest.mark.parametrize("name", NAMES)
def test_bundled_set_says_where_it_comes_from(name):
    header = open_trace(ds.fetch(name)).header
    assert header.machine
    assert header.kernel_release
    assert header.lost_total == 0
    assert header.window
    assert {"machine", "kernel", "workload", "recorded", "licence"} <= set(header.provenance)


#: meta.json of the guest recordings, block "sanity": mean_wasted_cpus, mean_busy_cpus, longest_episode_s
MEASURED = {
    "group-imbalance-buggy": (10.91, 52.292, 3.159879),
    "group-construction-buggy": (8.02, 8.0, 3.0004),
    "missing-domains-buggy": (55.98, 8.0, 3.0024),
}


@pytest.mark.parametrize("name", list(MEASURED))
def test_recordings_hold_what_their_recorder_measured(name):
    wasted, busy, longest = MEASURED[name]
    r = examine(open_trace(ds.fetch(name))).result
    assert r.verdict == "violations"
    assert r.mean(r.thread_ns) == pytest.approx(wasted, rel=0.01)
    assert r.mean(r.busy_ns) == pytest.approx(busy, rel=0.01)
    assert r.longest_ns / 1e9 == pytest.approx(longest, rel=0.01)


@pytest.mark.parametrize(
    ("name", "verdict"), [("live-balancing-off", "violations"), ("live-balancing-on", "clean")]
)
def test_live_pair(name, verdict):
    run = examine(open_trace(ds.fetch(name)))
    assert run.result.verdict == verdict
    # four hogs that nothing moves leave the other CPU idle; moved, they leave none
    assert run.result.mean(run.result.busy_ns) == pytest.approx(
        1 if verdict == "violations" else 2, abs=0.1
    )


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("live-balancing-off-tracefs", "violations"), ("live-balancing-on-tracefs", "clean")],
)
def test_live_pair_of_another_kernel_through_tracefs(name, verdict):
    trace = open_trace(ds.fetch(name))
    assert (trace.header.source_format, trace.header.kernel_release[:4]) == ("ftrace", "6.1.")
    r = examine(trace).result
    assert r.verdict == verdict
    # one of the two CPUs has nothing to do as long as the hogs run
    wasted = r.mean(r.thread_ns)
    assert 0.8 < wasted < 1 if verdict == "violations" else wasted < 0.05


def test_fetch__a_file_is_itself(tmp_path):
    path = tmp_path / "x.txt"
    path.touch()
    assert ds.fetch(path) == path


def test_fetch__offers_the_closest_name():
    with pytest.raises(DatasetError, match="'group-imbalance-fixed'"):
        ds.fetch("group-imbalance-fixd")


@pytest.mark.parametrize(
    "line", ["x.parquet", "x.parquet sha256:12", "x.parquet " + "z" * 64, "a b c d"]
)
def test_registry__names_the_bad_line(tmp_path, line):
    path = tmp_path / "registry.txt"
    path.write_text("# comment\n" + line + "\n")
    with pytest.raises(DatasetError, match="line 2"):
        ds.registry(path)


def test_fetch__a_changed_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "x.parquet").write_bytes(b"changed")
    (tmp_path / "registry.txt").write_text(f"x.parquet sha256:{'0' * 64}\n")
    monkeypatch.setattr(ds, "folder", lambda: tmp_path)
    with pytest.raises(DatasetError, match="was changed"):
        ds.fetch("x")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "y.parquet").write_bytes(b"content")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "www"))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize("wrong", [False, True])
def test_fetch__downloads_once_and_checks(tmp_path, monkeypatch, server, wrong):
    digest = hashlib.sha256(b"other" if wrong else b"content").hexdigest()
    (tmp_path / "registry.txt").write_text(f"y.parquet sha256:{digest} {server}/y.parquet\n")
    monkeypatch.setattr(ds, "folder", lambda: tmp_path)
    monkeypatch.setenv("WASTEDCORES_DATA_DIR", str(tmp_path / "cache"))
    if wrong:
        with pytest.raises(DatasetError, match="could not be fetched"):
            ds.fetch("y")
        return
    assert ds.fetch("y").read_bytes() == b"content"
    (tmp_path / "www" / "y.parquet").unlink()
    assert ds.fetch("y").parent == tmp_path / "cache"
