"""The hours of many machines, as a real Prometheus tells them from metrics that are written for it here."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import urllib.request
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
from support.typed import typed
from support.waiting import wait_for

from wastedcores.errors import UsageError
from wastedcores.sweep.prometheus import Prometheus, machine_hours, wasted_by_group

HOURS, STEP_S = 3, 60
END = 1_700_000_400
#: machine -> CPUs wasted in each hour, kernel in each hour, verdict in each hour
FLEET = {
    "good:9969": ((0.0, 0.0, 0.0), ("6.1.0",) * 3, ("clean",) * 3),
    "bad:9969": ((0.0, 0.5, 2.0), ("6.1.0", "6.12.0", "6.12.0"), ("clean", "violations", "violations")),
    "deaf:9969": ((0.0, 0.0, 0.0), ("6.1.0",) * 3, ("clean", "unknown", "unknown")),
    "dead:9969": ((0.0, 0.0, 0.0), ("6.1.0",) * 3, ("clean", "clean", "unknown")),
}  # fmt: skip
#: machine -> the seconds after which it tells no more
ENDS = {"dead:9969": 2 * 3600 + 300}


def openmetrics() -> str:
    """Return what two machines would tell a Prometheus that asks them every minute, one metric after the other."""
    wasted, longest, verdict, info, groups = [], [], [], [], []
    for host, (rates, kernels, verdicts) in FLEET.items():
        total = 0.0
        # a machine that ended told that it was clean
        told = ("clean",) * HOURS if host in ENDS else verdicts
        for n in range(HOURS * 3600 // STEP_S):
            at = END - HOURS * 3600 + (n + 1) * STEP_S
            if n * STEP_S >= ENDS.get(host, HOURS * 3600):
                break
            hour = n * STEP_S // 3600
            total += rates[hour] * STEP_S
            me = f'instance="{host}"'
            wasted.append(f"wastedcores_wasted_cpu_seconds_total{{{me}}} {total} {at}")
            longest.append(f"wastedcores_longest_wait_seconds{{{me}}} {rates[hour] / 10} {at}")
            verdict += [
                f'wastedcores_verdict{{{me},wastedcores_verdict="{v}"}} {int(v == told[hour])} {at}'
                for v in ("clean", "violations", "unknown")
            ]
            info.append(
                f'wastedcores_machine_info{{{me},kernel="{kernels[hour]}",cpus="8",version="0"}} 1 {at}'
            )
            groups += [
                f'wastedcores_cgroup_seconds_total{{{me},cgroup="/{g}",state="wasted"}} {share * total} {at}'
                for g, share in (("web", 0.75), ("batch", 0.25))
            ]
    return "\n".join([*wasted, *longest, *verdict, *info, *groups, "# EOF\n"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """The address of a Prometheus that has the metrics."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "told.txt").write_text(openmetrics())
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "told.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    run = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}"],
        cwd=folder, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ready() -> bool:
        with suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready").status == 200
        return False

    try:
        wait_for(ready, 30)
        yield f"prometheus+http://127.0.0.1:{port}"
    finally:
        run.terminate()
        run.wait(30)


@pytest.mark.slow
def test_every_machine_has_a_row_per_hour_with_its_kernel_and_verdict(prometheus):
    table = machine_hours(prometheus, HOURS, END)
    assert table.height == HOURS * len(FLEET)
    for host, (rates, kernels, verdicts) in FLEET.items():
        mine = table.filter(pl.col("host") == host).sort("began")
        assert mine["wasted_cpus"].to_list() == pytest.approx(list(rates), abs=0.05)
        assert mine["kernel"].to_list() == list(kernels)
        assert mine["verdict"].to_list() == list(verdicts)
        assert mine["cpus"].to_list() == [8] * HOURS
    groups = wasted_by_group(prometheus, HOURS, END)
    assert groups["cgroup"].to_list() == ["/web", "/batch"]
    assert groups["wasted_s"][0] == pytest.approx(0.75 * 2.5 * 3600, rel=0.05)


@pytest.mark.slow
def test_the_verb_says_that_nothing_was_told_of_the_last_hours(prometheus, tmp_path):
    done = typed("fleet", prometheus, "-o", tmp_path / "t.parquet")  # the metrics are of 2023
    assert done.code == 2
    assert "has no metric of `wastedcores watch --serve` in the last 24 hours" in done.err


class Pretended(BaseHTTPRequestHandler):
    """Rows are right for a wasteful machine and one that is not; a server of our own answers as a Prometheus does."""

    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"])).decode()
        machines = (("a:1", "6.1.0"), ("b:1", "6.12.0"))
        hosts = [{"instance": name, "kernel": kernel, "cpus": "2"} for name, kernel in machines]
        if "cgroup" in query:
            hosts = [{"cgroup": "/web<script>"}, {"cgroup": "/"}]
        value = 12.0 if "present" in query else 0.0 if "unknown" in query else 1800.0
        rows = [
            {"metric": h, "value": [0, str(value * (n or "present" in query))]}
            for n, h in enumerate(hosts)
        ]
        body = json.dumps({"status": "success", "data": {"result": rows}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


@pytest.fixture
def pretended():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pretended)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"prometheus+http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_page_ranks_machines_kernels_and_groups(pretended, tmp_path):
    out, page = tmp_path / "t.parquet", tmp_path / "t.html"
    done = typed("fleet", pretended, "--hours", "2", "-o", out, "--page", page)
    assert done.code == 1, done.out
    assert "b:1" in done.out
    assert "with violations  unknown\n" in done.out
    assert "4 machine hours: 2 with violations" in done.out
    table = pl.read_parquet(out)
    assert table.height == 4
    assert table.filter(host="b:1")["wasted_cpus"].to_list() == [0.5, 0.5]
    text = page.read_text()
    kernels = text.partition("Kernels, the worst first")[2]
    assert kernels.index("6.12.0") < kernels.index("6.1.0")
    assert "/web&lt;script&gt;" in text


@pytest.mark.parametrize(("moments", "seconds"), [(13, 3600), (12, 3600), (6, 1800), (0, 0)])
def test_an_hour_counts_for_as_long_as_the_machine_was_watched(moments, seconds, monkeypatch):
    def ask(self, query, moment):
        value = moments if "present" in query else 0.0 if "unknown" in query else 0.5 * seconds
        return [{"instance": "new:1", "kernel": "6.1.0", "cpus": "2", "value": float(value)}]

    monkeypatch.setattr(Prometheus, "ask", ask)
    row = machine_hours("prometheus+http://localhost:9090", 1, END).row(0, named=True)
    assert (row["seconds"], row["wasted_cpus"]) == (seconds, 0.5 if seconds else 0)


def test_a_full_disk_leaves_the_table_of_yesterday(pretended, tmp_path, monkeypatch):
    def full(self, file, *_, **__):
        Path(file).write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "t.parquet"
    out.write_bytes(b"yesterday")
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    done = typed("fleet", pretended, "--hours", "1", "-o", out)
    assert done.code == 2
    assert "No space left" in done.err
    assert out.read_bytes() == b"yesterday"
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize(
    ("where", "option", "why"),
    [
        ("prometheus+http://127.0.0.1:1", ("--persist", "50ms"), "what services told it"),
        ("prometheus+http://127.0.0.1:1", ("--whole",), "what services told it"),
        ("traces", ("--hours", "3"), "only a Prometheus is asked for hours"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(where, option, why):
    done = typed("fleet", where, *option)
    assert done.code == 2
    assert f"{option[0]}: this changes nothing here" in " ".join(done.err.split())
    assert why in " ".join(done.err.split())


@pytest.mark.parametrize("address", ["prometheus+http://127.0.0.1:1", "prometheus+http://no such"])
def test_an_address_without_a_prometheus_is_refused(address):
    with pytest.raises(UsageError, match="Expected the address of one"):
        machine_hours(address, 1)
