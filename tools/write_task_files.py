"""Write ``tasks.json`` beside each recording: what its trace does not tell of its tasks, from datasets/recordings/README.md.

No task changed its affinity in the measured windows, no control group had a limit of CPU time, and each trace began before
the work did. The recorder opened a session for each hog, for make, and for the shell that starts threads, and autogroup was
on (off in db). It bound threads of gc and of the pinned lu to nodes 1 and 2, and each noise thread to its CPU. The file has
the form that ``wastedcores snapshot`` writes.

    python tools/write_task_files.py
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from wastedcores.capture.snapshot import SCHEMA
from wastedcores.cpulist import format_cpulist
from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen, seen
from wastedcores_studies.recordings.kernels import all_recordings
from wastedcores_studies.recordings.recording import Recording

#: by kind of run: names of tasks that lead a session
LEADERS = {"gi": r"R-\d+|make", "gc": "shell", "ms": "shell", "lu": r"shell|R-\d+", "db": "(?!)"}
#: names of tasks that may run anywhere unless their run is pinned, as their children may
USERS = r"rec|make|shell|db|R-\d+"
#: by kind of run: names of threads that are bound to nodes 1 and 2, if the run is pinned
PINNED = {"gc": r"ep-\d+|shell", "lu": r"lu-\d+|shell"}


def facts(recording: Recording, found: Seen) -> list[dict[str, Any]]:
    """Return what the README says of the tasks of a recording."""
    machine, kind = recording.machine, recording.kind
    nodes = format_cpulist([c for n in (1, 2) for c in machine.cpus_of_node(n)])
    out = []
    for row, comm in zip(found.tasks, found.comms, strict=True):
        fact: dict[str, Any] = {"pid": int(row[sj.T_PID]), "comm": comm}
        if re.fullmatch(USERS, comm):
            fact["allowed"] = f"0-{machine.cpus - 1}"
        if re.fullmatch(LEADERS[kind], comm):
            fact["autogroup"] = f"/autogroup-{fact['pid']}"
        if recording.pinned and re.fullmatch(PINNED.get(kind, "(?!)"), comm):
            fact["allowed"] = nodes
        if noise := re.fullmatch(r"noise/(\d+)", comm):
            fact["allowed"] = noise[1]
        if len(fact) > 2:
            out.append(fact)
    shells = [f for f in out if f["comm"] == "shell" and "autogroup" in f]
    for fact in out:  # threads are in the session of their shell
        if shells and re.fullmatch(PINNED.get(kind, "(?!)"), fact["comm"]):
            fact["autogroup"] = shells[0]["autogroup"]
    return out


def main() -> None:
    """Write all files."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for recording in all_recordings():
        tasks = facts(recording, seen(recording.trace, 0))
        about = "from datasets/recordings/README.md, by tools/write_task_files.py"
        when = {"boottime_ns": recording.trace.header.start_ns, "unix_ns": 0}
        kernel = recording.meta["kernel"]
        file = {"schema": SCHEMA, "kernel": kernel, "source": about, **when, "tasks": tasks}
        file |= {"follows_affinity": True, "silent_is_idle": True, "quotas": {}}
        (recording.folder / "tasks.json").write_text(json.dumps(file, indent=0) + "\n")
        print(f"{recording.name}: {len(tasks)} tasks")


if __name__ == "__main__":
    main()
