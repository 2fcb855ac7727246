"""What a guest costs: host seconds per virtual second with all CPUs busy, and the time of a boot."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from wastedcores.guest import find_emulator, find_kernel
from wastedcores.guest.boot import Options, booted
from wastedcores.guest.jobs import Work, job_text, numbered
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import GuestMachine, guest_machine
from wastedcores.guest.record import record_all
from wastedcores.guest.saved import saved_guests
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

KERNEL = "debian:6.12.107"
MACHINES = (
    *map(Machine.preset, ("guest-4", "bd-paper-16", "bd-paper-64")),
    grid("guest-256", packages=4, cores_per_llc=64),
)
#: virtual time for which every CPU computes, and the least time before that
BUSY_NS, LEAD_NS = 500_000_000, 100_000_000


def busy(cpus: int) -> Work:
    """Return a work with a thread bound to each CPU that computes all the time."""
    w = Workload("busy")
    for cpu in range(cpus):
        w.task(f"busy-{cpu}", Script().compute(BUSY_NS), allowed=[cpu], cpu=cpu)
    return Work("busy", {"JOB": job_text(w.program(), 1).encode()})


def until_it_goes_on(kernel: Kernel, machine: GuestMachine) -> float:
    """Return the time from the start of the emulator until the guest says that it has booted."""
    jobs = numbered([busy(1)]) | {"setup": b"", "list": b"0 sched/sched_switch 64\n"}
    begun, at = time.monotonic(), []

    def said(line: str) -> None:
        if line.startswith("@@BOOTED"):
            at.append(time.monotonic() - begun)

    with booted(find_emulator(), kernel, machine, jobs, Options(), said):
        return at[0]


def run() -> list[dict]:
    emulator = find_emulator()
    built = json.loads((emulator.folder / "emulator.json").read_text())
    size = sum(f.stat().st_size for f in emulator.folder.rglob("*") if f.is_file())
    kernel = find_kernel(KERNEL)
    rows = [
        {
            "id": "build",
            "name": f"building the emulator once, with {built['jobs']} compiler(s) at a time",
            "value": built["seconds"],
            "unit": "s",
            "note": f"{size >> 20} MB of disk",
        }
    ]
    for machine in MACHINES:
        on = guest_machine(machine)
        cpus = on.machine.cpus
        with tempfile.TemporaryDirectory() as folder:
            console = Path(folder) / "console"
            load = os.getloadavg()[0]
            trace = record_all([busy(cpus)], kernel, on, Options(console=console))[0]
            said = {
                words[1]: float(words[0])
                for line in console.read_text().splitlines()
                if len(words := line.split()) > 1 and words[1].startswith("@@")
            }
        header = trace.header
        virtual = (header.end_ns - header.start_ns) / 1e9
        note = (
            f"{said['@@SEND'] - said['@@RUN']:.1f} s for {virtual:.3f} virtual seconds, of which every CPU computes for "
            f"{BUSY_NS / 1e9:g}; {header.events:,} events, {header.lost_total} lost; load before {load:.1f}"
        )
        rows.append(
            {
                "id": f"cost-{cpus}",
                "name": f"{cpus} busy CPUs: host time per virtual second of recording",
                "value": (said["@@SEND"] - said["@@RUN"]) / virtual,
                "unit": "s",
                "note": note,
            }
        )
        rows.append(
            {
                "id": f"boot-{cpus}",
                "name": f"{cpus} CPUs: until the kernel has booted, and the guest is saved",
                "value": said["@@BOOTED"],
                "unit": "s",
                "note": f"its file has {saved_guests()[0].stat().st_size >> 20} MB",
            }
        )
        rows.append(
            {
                "id": f"saved-{cpus}",
                "name": f"{cpus} CPUs: until a guest that was saved goes on",
                "value": until_it_goes_on(kernel, on),
                "unit": "s",
            }
        )
    return rows
