"""What is tried: two services under systemd, one of which is killed again and again, and the recorder that needs no BPF."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from soak.systemd import UNTIL_KILLED, Booted
from soak.witness import ahead
from wastedcores.capture.unit import CONFIG, UNIT

ROOT = Path(__file__).resolve().parents[2]
KEEP_MB = 50
#: the parts of a watcher by a word of their command
PARTS = {"unclaimed.py": "collector", "tracefs.py": "collector", "debugfs.py": "counts"}


class Watcher:
    """A watcher: when it looked, what it raised, and what it takes."""

    def __init__(self, name: str, how: str, disk: Path) -> None:
        self.name, self.how, self.disk = name, how, disk
        self.spans: list[list[int | None]] = []  # when it looked; the last may be open
        self.alarms: list[dict[str, Any]] = []
        self.parts: dict[int, str] = {}  # process -> part
        self._used: dict[int, int] = {}  # process -> its CPU time so far, in ns
        self._before: tuple[int, dict[str, int]] = (time.monotonic_ns(), {})

    def looks(self, since_ns: int | None = None) -> bool:
        """Is it looking, and has it since then?"""
        if not self.spans or self.spans[-1][1] is not None:
            return False
        return since_ns is None or self.spans[-1][0] <= since_ns  # type: ignore[operator]

    def began(self, now_ns: int) -> None:
        """Note that it looks from now on."""
        self.spans.append([now_ns, None])

    def ended(self, now_ns: int) -> None:
        """Note that it does not look any more."""
        if self.looks():
            self.spans[-1][1] = now_ns

    def raised(self, told: dict[str, Any]) -> None:
        """Note an alarm."""
        names = ("number", "idle_cpu", "busy_cpu", "pid", "lasted_ms", "began_ns", "confirmed_ns")
        alarm = {name: told[name] for name in names if name in told}
        self.alarms.append({"watcher": self.name, **alarm})

    def processes(self) -> list[int]:
        """Return its processes."""
        raise NotImplementedError

    def find(self) -> None:
        """Find its processes anew."""
        parts = {}
        for pid in self.processes():
            with suppress(OSError):
                argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                part = "server" if "\0watch\0" in argv else "others"
                parts[pid] = next((p for word, p in PARTS.items() if word in argv), part)
        self.parts = parts

    def own_ns(self) -> int:
        """Return the CPU time of its processes so far, also of those that have ended."""
        for pid in self.parts:
            with suppress(
                OSError
            ):  # the process's CPU clock: include/linux/posix-timers_types.h, make_process_cpuclock
                self._used[pid] = time.clock_gettime_ns((~pid << 3) | 2)
        return sum(self._used.values())

    def sample(self) -> dict[str, Any]:
        """Return what it takes now: memory and CPU time by part, since the last sample, and its files."""
        self.own_ns()
        (then_ns, before), now_ns = self._before, time.monotonic_ns()
        used, memory = dict[str, int](), dict[str, int]()
        for pid, part in self.parts.items():
            used[part] = used.get(part, 0) + self._used.get(pid, 0)
            memory[part] = memory.get(part, 0) + _rss_kib(pid)
        self._before = now_ns, used
        cpu = {
            part: round((ns - before[part]) / (now_ns - then_ns), 5)
            for part, ns in used.items()
            if ns >= before.get(part, ns + 1)
        }
        files = [p for p in self.disk.rglob("*") if p.is_file()] if self.disk.is_dir() else []
        disk = 0
        for file in files:
            with suppress(OSError):
                disk += file.stat().st_size
        return {"rss_kib": memory, "cpu": cpu, "disk_bytes": disk}

    def stop(self) -> None:
        """End it."""
        self.ended(time.monotonic_ns())


class Service(Watcher):
    """``watch --serve`` as a unit of systemd; :func:`install` makes it, and :func:`follow` tells what it says."""

    def __init__(self, name: str, how: str, unit: str, port: int, systemd: Booted) -> None:
        super().__init__(name, how, systemd.folder / "var/lib" / unit)
        self.unit, self.port, self.systemd = unit, port, systemd
        self.kills: list[dict[str, Any]] = []

    def processes(self) -> list[int]:
        return self.systemd.processes(f"{self.unit}.service")

    def kill(self) -> None:
        """Kill its collector or, every second time, its server, as no program can prevent."""
        part = ("collector", "server")[len(self.kills) % 2]
        self.find()
        for pid in [p for p, its in self.parts.items() if its == part]:
            now_ns = time.monotonic_ns()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.ended(now_ns)
            self.kills.append({"at_ns": now_ns, "part": part})

    def heard(self, entry: dict[str, Any]) -> None:
        """Take an entry of the journal."""
        at_ns = int(entry["__MONOTONIC_TIMESTAMP"]) * 1000
        if entry.get("MESSAGE") == "looking":
            self.began(at_ns)
        elif "WASTEDCORES_NUMBER" in entry:
            start = "WASTEDCORES_"
            self.raised(
                {
                    k.removeprefix(start).lower(): int(v)
                    for k, v in entry.items()
                    if k.startswith(start)
                }
            )
        elif "EXIT_CODE" in entry:  # systemd tells that its process ended
            self.ended(at_ns)

    def stop(self) -> None:
        super().stop()
        self.systemd.run("systemctl", "stop", self.unit)

    def chronic(self) -> list[str]:
        """Return the recordings of chronic waste that it kept."""
        return sorted(p.name for p in self.disk.glob("chronic-*.json"))


def install(systemd: Booted, ports: tuple[int, int]) -> tuple[Service, Service]:
    """Install the service as an operator does, and a second one that differs in its names only."""
    etc = systemd.folder / "etc"
    for unit, port in zip(("wastedcores", "wastedcores-killed"), ports, strict=True):
        drop = etc / f"systemd/system/{unit}.service.d"
        drop.mkdir(parents=True)
        (drop / "sources.conf").write_text(f"[Service]\nEnvironment=PYTHONPATH={ROOT}\n")
        (etc / "wastedcores").mkdir(exist_ok=True)
        config = f'serve = ":{port}"\noutput = "/var/lib/{unit}"\nkeep_mb = {KEEP_MB}\n'
        (systemd.folder / CONFIG.with_stem(unit if "-" in unit else "watch")).write_text(config)
    wastedcores = [sys.executable, "-m", "wastedcores"]
    done = systemd.run(*wastedcores, "unit", "--install", PYTHONPATH=str(ROOT))
    if done.returncode:
        raise RuntimeError(done.stderr + systemd.run("journalctl", "-n", "20").stdout)
    text = (
        (systemd.folder / UNIT)
        .read_text()
        .replace(f"/{CONFIG}", f"/{CONFIG.with_stem('wastedcores-killed')}")
    )
    second = re.sub(r"(Directory=wastedcores|/var/cache/wastedcores)", r"\1-killed", text)
    (systemd.folder / UNIT.with_name("wastedcores-killed.service")).write_text(second)
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "start", "wastedcores-killed")
    return (
        Service("service", "undisturbed", "wastedcores", ports[0], systemd),
        Service("killed", "killed again and again", "wastedcores-killed", ports[1], systemd),
    )


def follow(services: tuple[Service, ...], systemd: Booted) -> threading.Thread:
    """Let the services hear what the journal has of them, from their start on; the thread ends with systemd."""
    argv = systemd.argv("journalctl", "-f", "-n", "all", "-o", "json")

    def read() -> None:
        ahead()
        with journal:
            assert journal.stdout is not None
            for line in journal.stdout:
                entry = json.loads(line)
                unit = entry.get("UNIT") or entry.get("_SYSTEMD_UNIT")
                for service in services:
                    if unit == f"{service.unit}.service":
                        service.heard(entry)

    journal = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


class Recorder(Watcher):
    """``watch --backend tracefs`` in turns, each of which records, is ended, and is checked; never while ``busy`` is held."""

    def __init__(self, folder: Path, turn_s: float, busy: threading.Lock) -> None:
        super().__init__("tracefs", f"tracefs, in turns of {turn_s:.0f} s", folder)
        self.turn_s, self.busy = turn_s, busy
        self.turns: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._take_turns)
        folder.mkdir()
        self._thread.start()

    def processes(self) -> list[int]:
        return _descendants(self._process.pid) if self._process else []

    def _take_turns(self) -> None:
        while not self._end.is_set():
            watch = ("-m", "wastedcores", "watch", "--backend", "tracefs", "--json")
            argv = [*UNTIL_KILLED, sys.executable, *watch]
            env = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.disk)}
            with (self.disk / "said.txt").open("w+") as said:
                pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": said, "text": True}
                self._process = subprocess.Popen(argv, env=env, **pipes)
                self._turn(self._process, said.name)

    def _turn(self, process: subprocess.Popen[str], said: str) -> None:
        while process.poll() is None and "looking" not in Path(said).read_text().splitlines():
            time.sleep(0.2)
        began_ns = time.monotonic_ns()
        if process.poll() is None:
            self.began(began_ns)
        self._end.wait(self.turn_s)
        with self.busy:
            ended_ns = time.monotonic_ns()
            self.ended(ended_ns)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate()
        turn: dict[str, Any] = {
            "start_ns": began_ns,
            "end_ns": ended_ns,
            "code": process.returncode,
        }
        try:
            found = json.loads(out)
        except ValueError:
            lines = Path(said).read_text().splitlines()
            self.turns.append({**turn, "verdict": "none", "why": " ".join(lines[-3:])[-300:]})
            return
        for alarm in found["checker"]["violations"]:
            self.raised(alarm)
        self.turns.append(
            {**turn, "verdict": found["verdict"], "kind": found["kind"], "notes": found["notes"]}
            | {
                "events": found["trace"]["events"],
                "judged_s": round((time.monotonic_ns() - ended_ns) / 1e9, 1),
            }
        )

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for tid in _listed(f"/proc/{pid}/task"):
        with suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{tid}/children").read_text().split():
                found += _descendants(int(child))
    return found


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _rss_kib(pid: int) -> int:
    """Return the resident memory of a process; 0 if it is gone."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])
    return 0
