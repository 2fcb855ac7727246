"""hackbench: groups of senders and receivers, in which each sender writes to each receiver over a pipe.

It works as rt-tests' hackbench.c and perf's ``bench sched messaging``. In a group every receiver reads its own pipe, and
every sender writes ``loops`` times to each pipe in turn. All tasks wait for one signal to begin. A pipe is a pair of
semaphores: the messages in it and the room that is left. A message costs the writer and the reader a fixed time (100 bytes
through a pipe take about a microsecond at each end).
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import MOST_SPECS, Measure, Workload
from wastedcores.workload.script import Script

#: a pipe has 16 pages (fs/pipe.c: PIPE_DEF_BUFFERS), and 40 messages of 100 bytes are merged into a page
PIPE_MESSAGES = 640
#: most receivers of a group; a sender's program has rows for each of them
MOST_FDS = 1000
#: time of a fork, as in the recordings
FORK_NS = 48_000


def hackbench(
    machine: Machine,
    seed: int,
    groups: int = 10,
    fds: int = 20,
    loops: int = 100,
    write_ns: int = 1000,
    read_ns: int = 1000,
    pipe: int = PIPE_MESSAGES,
) -> Workload:
    """Make one run of hackbench in one session."""
    counts = {"groups": groups, "fds": fds, "loops": loops, "pipe": pipe}
    times = {"write_ns": write_ns, "read_ns": read_ns}
    for name, value in (counts | times).items():
        if value < 1:
            raise WorkloadError(f"hackbench: {name}={value}; expected 1 or more.")
    if groups * fds > MOST_SPECS or fds > MOST_FDS:
        raise WorkloadError(
            f"hackbench: groups={groups}, fds={fds}; expected fds up to {MOST_FDS} and up to {MOST_SPECS} receivers in all."
        )
    w = Workload("hackbench", Measure("hackbench_s", "hackbench start", "hackbench end"))
    ready, go = w.semaphore(), w.semaphore()
    main = Script()
    for _ in range(groups):
        pipes = [(w.semaphore(), w.semaphore(pipe)) for _ in range(fds)]
        sender = Script().post(ready).wait(go).loop(loops)
        for messages, room in pipes:
            receiver = Script().post(ready).wait(go).loop(fds * loops)
            receiver.wait(messages).compute(read_ns).post(room, sync=True).end()
            main.compute(FORK_NS).fork(w.template("receiver", receiver))
            sender.wait(room).compute(write_ns).post(messages, sync=True)
        main.loop(fds).compute(FORK_NS).fork(w.template("sender", sender.end())).end()
    tasks = 2 * fds * groups
    main.loop(tasks).wait(ready).end().mark("hackbench start").post(go, tasks)
    main.wait_children(0).mark("hackbench end")
    w.task("hackbench", main, session=w.session(), cpu=seed * 7 % machine.cpus)
    return w
