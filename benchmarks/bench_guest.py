"""What a guest costs: host seconds per virtual second with all CPUs busy, and the time of a boot."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from wastedcores.guest import find_emulator, find_kernel
from wastedcores.guest.boot import Options
from wastedcores.guest.jobs import Work, job_text
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.record import record_all
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

KERNEL = "debian:6.12.107"
#: the emulator has at most 255 CPUs (docs/guest.md), and 252 are the most in four packages
MACHINES = (
    *map(Machine.preset, ("guest-4", "bd-paper-16", "bd-paper-64")),
    grid("guest-252", packages=4, cores_per_llc=63),
)
#: virtual time for which every CPU computes, and the least time before that
BUSY_NS, LEAD_NS = 500_000_000, 100_000_000


def busy(cpus: int) -> Work:
    """Return a work with a thread bound to each CPU that computes all the time."""
    w = Workload("busy")
    for cpu in range(cpus):
        w.task(f"busy-{cpu}", Script().compute(BUSY_NS), allowed=[cpu], cpu=cpu)
    return Work("busy", {"JOB": job_text(w.program(), 1).encode()})


def run() -> list[dict]:
    find_emulator()
    kernel, rows = find_kernel(KERNEL), []
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
                "name": f"{cpus} CPUs: until the kernel has booted",
                "value": said["@@BOOTED"],
                "unit": "s",
            }
        )
    return rows
