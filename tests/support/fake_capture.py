"""The command line with a collector that only pretends, for tests that end processes or fill disks."""

from __future__ import annotations

MAIN = "from wastedcores.cli import main; main()"
#: a capture whose collector only pretends: it writes a line of text every ms until its input is closed
CAPTURE = '''
import sys
from wastedcores.capture import record
from wastedcores.capture.backends import Backend
LINE = (
    "  a-6 [000] d..2. %f: sched_switch: prev_comm=a prev_pid=6 prev_prio=120 prev_state=S ==> next_comm=b "
    "next_pid=7 next_prio=120"
)
COLLECTOR = f"""
import os, select, sys, time
print("# tracer: nop\\\\n#\\\\n# entries-in-buffer/entries-written: 0/0   #P:1\\\\n#", flush=True)
print("ready", file=sys.stderr, flush=True)
i = 0
while not select.select([0], [], [], 0.001)[0]:
    i += 1
    try:
        if i <= 150:
            print({LINE!r} % (1 + i / 1000), flush=True)
    except OSError as e:
        print("cannot write:", e.strerror, file=sys.stderr)
        os._exit(2)
"""
record.choose = lambda *_, **__: Backend("tracefs", True, "pretended")
record.command = lambda *_: [sys.executable, "-c", COLLECTOR]
'''
