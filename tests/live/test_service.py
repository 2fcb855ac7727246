"""The checker as a service on this kernel: a real Prometheus reads it, and a real violation changes what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress

import pytest
from support.idleness import idle_seconds
from support.waiting import wait_for

import wastedcores
from wastedcores.capture import balancing_off, pile_up
from wastedcores.capture.demonstration import push_work_away

#: it starts a Prometheus, and a violation needs a machine on which nothing else runs
pytestmark = pytest.mark.slow

WATCH = [sys.executable, "-m", "wastedcores", "watch"]


@contextmanager
def service(*arguments: str):
    """Run the service; yield the address of its metrics, and its process, as soon as it checks the machine."""
    run = subprocess.Popen([*WATCH, "--serve", ":0", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        address = ""
        for line in run.stderr:
            address = line.split()[-1] if line.startswith("metrics at ") else address
            if line.strip() == "looking":
                break
        assert address, "the service did not start"
        yield address, run
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
        with suppress(ValueError):
            run.stderr.read()
        run.wait(60)
        run.stderr.close()


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read().decode()


def value(text: str, name: str) -> float | None:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


@pytest.fixture
def prometheus(tmp_path):
    """A real Prometheus that scrapes an address every second; yields a function that asks it."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    running = []

    def start(address: str):
        config = tmp_path / "prometheus.yml"
        target = address.removeprefix("http://").removesuffix("/metrics")
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: w, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        port = 39090
        running.append(
            subprocess.Popen(
                [
                    program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={tmp_path / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stderr=subprocess.DEVNULL,
            )
        )

        def ask(query: str) -> list:
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
                {"query": query}
            )
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return json.load(answer)["data"]["result"]
            except OSError:
                return []  # it is still starting

        return ask

    yield start
    for process in running:
        process.terminate()
        process.wait(30)


def test_prometheus_reads_the_service(bpf, prometheus):
    with service("--seconds", "60") as (address, _):
        ask = prometheus(address)
        scraped = wait_for(lambda: ask("wastedcores_looks_total > 2"), 30)
        assert float(scraped[0]["value"][1]) >= 3
        assert ask("up == 1")
        states = {r["metric"]["wastedcores_verdict"] for r in ask("wastedcores_verdict")}
        assert states == {"clean", "violations", "unknown"}
        spin = subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
        try:
            wait_for(
                lambda: ask('wastedcores_cgroup_seconds_total{cgroup="/",state="ran"} > 1'), 20
            )
        finally:
            spin.kill()
            spin.wait()
        wait_for(lambda: ask("rate(wastedcores_samples_total[10s]) > 10"), 20)


def test_a_real_violation_is_told_and_its_recording_kept(bpf, balancing, tmp_path):
    folder = tmp_path / "evidence"
    with service("-o", str(folder), "--seconds", "90") as (address, _):
        wait_for(lambda: value(page(address), "wastedcores_looks_total"), 30)
        time.sleep(1)
        with balancing_off():
            push_work_away()
            with pile_up(3, 6):
                before_s = idle_seconds()
                time.sleep(6)
                idle_s = idle_seconds() - before_s
        told = page(address)
        if not value(told, 'wastedcores_violations_total{kind="persistent"}'):
            assert idle_s < 5, "a CPU was idle beside three threads, and nothing was told"
            pytest.skip("other work of this machine kept the second CPU busy")
        assert value(told, 'wastedcores_verdict{wastedcores_verdict="violations"}') == 1
        assert value(told, "wastedcores_wasted_cpu_seconds_total") > 0.5
        assert value(told, "wastedcores_longest_wait_seconds") > 0.001
        done = 'wastedcores_recordings_total{result="kept"}'
        wait_for(lambda: value(page(address), done), 60)
        # The first may be one of chronic waste, which tells no reasons of the balancer. Its judge then works on the idle CPU.
        if any(folder.glob("violation-*.txt")):
            refusals = "wastedcores_recorded_refusals_total{reason="
            wait_for(lambda: refusals in page(address), 10)
    # one that is judged when the service ends has no words yet
    kept = [text.with_suffix(".parquet") for text in folder.glob("*.txt")]
    found = {trace: wastedcores.check(trace) for trace in kept}
    assert "violations" in {f.verdict for f in found.values()}
    for trace, f in found.items():
        # An "unknown" is kept as well: other work may interrupt the violation in a recording too short for chronic waste.
        assert f.verdict == "violations" or (f.verdict == "unknown" and f.notes)
        assert trace.with_suffix(".txt").read_text().split(": ")[1].startswith(f.verdict.upper())
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_service_listens_on_the_loopback_only(bpf):
    with service("--seconds", "30") as (address, _):
        assert address.startswith("http://127.0.0.1:")
        port = int(address.split(":")[2].partition("/")[0])
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table][1:]
        listening = [r[1] for r in rows if r[3] == "0A" and r[1].endswith(f":{port:04X}")]
        assert listening == [f"0100007F:{port:04X}"]


def test_two_capabilities_are_enough(bpf):
    """The unit's bounding set, where no systemd is to be had; test_systemd.py has a real one."""
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv: apt-get install util-linux")
    confine = [
        "setpriv",
        "--bounding-set",
        "-all,+bpf,+perfmon",
        "--inh-caps",
        "-all",
        "--no-new-privs",
    ]
    run = subprocess.run(
        [*confine, *WATCH, "--serve", ":0", "--seconds", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode in (0, 1), run.stderr
    assert "looking" in run.stderr


def test_the_collector_keeps_no_compiler_and_the_server_reads_no_traces(bpf):
    with service("--seconds", "60") as (address, run):
        wait_for(lambda: value(page(address), "wastedcores_looks_total"), 30)
        time.sleep(6)  # the page is made every 5 s
        told = page(address)
        children = f"/proc/{run.pid}/task/{run.pid}/children"
        with open(children) as ids:
            (collector,) = ids.read().split()
        with open(f"/proc/{collector}/maps") as maps:
            assert "libclang" not in (mapped := maps.read())
            assert "libbcc" not in mapped
        with open(f"/proc/{run.pid}/maps") as maps:
            assert "polars" not in (mapped := maps.read())
            assert "llvmlite" not in mapped
        rings = (os.cpu_count() or 1) * 8 << 20  # the flight recorder's, which the collector maps
        assert value(told, 'wastedcores_resident_bytes{part="collector"}') - rings < 40e6
        assert value(told, 'wastedcores_resident_bytes{part="server"}') < 100e6
