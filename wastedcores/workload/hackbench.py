"""hackbench: groups of senders and receivers over pipes, each sender to each receiver of its group.

As rt-tests' hackbench.c and perf's ``bench sched messaging`` do it: in a group every receiver reads its own pipe and
every sender writes ``loops`` times to each of them in turn; all wait for one signal to begin. A pipe is a pair of
semaphores, the messages in it and the room that is left. A message costs the writer and the reader a fixed time (a 100
byte message through a pipe takes about a microsecond at each end).
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import MOST_SPECS, Measure, Workload
from wastedcores.workload.script import Script

#: a pipe has 16 pages (fs/pipe.c: PIPE_DEF_BUFFERS), and 40 messages of 100 bytes are merged into a page
PIPE_MESSAGES = 640
#: a sender's program names each receiver of its group
MOST_FDS = 1000
#: fork() of a process, as in the recordings
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
    """One run of hackbench in one session.

    Parameters
    ----------
    machine, seed
        Where; the seed decides on which CPU it is started.
    groups
        ``-g``: groups.
    fds
        ``-f``: senders, and as many receivers, of a group.
    loops
        ``-l``: messages of each sender to each receiver.
    write_ns, read_ns
        CPU time of a message at either end, in ns.
    pipe
        Messages that fit into a pipe.

    Raises
    ------
    WorkloadError
        Less than one of anything, or a message that takes no time.
    """
    counts = {"groups": groups, "fds": fds, "loops": loops, "pipe": pipe}
    times = {"write_ns": write_ns, "read_ns": read_ns}
    for name, value in (counts | times).items():
        if value < 1:
            raise WorkloadError(f"hackbench: {name}={value}; expected 1 or more")
    if groups * fds > MOST_SPECS or fds > MOST_FDS:
        raise WorkloadError(
            f"hackbench: groups={groups}, fds={fds}; expected fds up to {MOST_FDS} and up to {MOST_SPECS} receivers in all"
        )
    w = Workload("hackbench", Measure("hackbench_s", "hackbench start", "hackbench end"))
    ready, go = w.semaphore(), w.semaphore()
    main = Script()
    for _ in range(groups):
        pipes = [(w.semaphore(), w.semaphore(pipe)) for _ in range(fds)]
        sender = Script().post(ready).wait(go).loop(loops)
        for messages, room in pipes:
            receiver = Script().post(ready).wait(go).loop(fds * loops)
            receiver.wait(messages).compute(read_ns).post(room).end()
            main.compute(FORK_NS).fork(w.template("receiver", receiver))
            sender.wait(room).compute(write_ns).post(messages)
        main.loop(fds).compute(FORK_NS).fork(w.template("sender", sender.end())).end()
    tasks = 2 * fds * groups
    main.loop(tasks).wait(ready).end().mark("hackbench start").post(go, tasks)
    main.wait_children(0).mark("hackbench end")
    w.task("hackbench", main, session=w.session(), cpu=seed * 7 % machine.cpus)
    return w
