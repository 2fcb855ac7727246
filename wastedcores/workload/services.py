"""Workloads that measure a service: schbench, a web server, a database, UnixBench's shell scripts, and hackbench.

The first four depend on newidle balancing. Their measure is the throughput: how many rounds
their workers, clients, terminals or loopers finish per second.

hackbench works like rt-tests' hackbench.c and perf's ``bench sched messaging``: in a group every receiver reads its own pipe,
and every sender writes ``loops`` times to each pipe of the group in turn. All tasks wait for one signal to begin. A pipe is a
pair of semaphores, which count the messages in it and the room that is left. A message costs the writer and the reader a fixed
time (100 bytes through a pipe take about a microsecond at each end).
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import MOST_SPECS, Measure, Workload
from wastedcores.workload.script import Script

#: a pipe has 16 pages (fs/pipe.c: PIPE_DEF_BUFFERS), and 40 messages of 100 bytes are merged into a page
PIPE_MESSAGES = 640
#: the largest number of receivers in a group; a sender's program has rows for each of them
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
    _check("hackbench", groups=groups, fds=fds, loops=loops, pipe=pipe, write_ns=write_ns, read_ns=read_ns)  # fmt: skip
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


US, MS = 1_000, 1_000_000


def _rate(what: str, of: str) -> Measure:
    return Measure(f"{what}_per_s", "", "", of)


def _check(name: str, **counts: float) -> None:
    for parameter, value in counts.items():
        if value < 1:
            raise WorkloadError(f"{name}: {parameter}={value}; expected 1 or more.")


def schbench(
    machine: Machine,
    seed: int,
    messengers: int = 4,
    workers: int = 256,
    message_ns: int = 200,
    worker_ns: int = US,
    ms: int = 20,
) -> Workload:
    """Let message threads wake workers, which send the next message at once, as ``schbench -L -M auto -n 0 -r 0 -s 0`` does.

    Each message thread is bound to a CPU of its own, and its ``workers`` run on the CPUs without a message thread. A message
    takes ``message_ns`` of CPU time in the message thread and ``worker_ns`` in the worker. The seed changes nothing here.
    """
    _check("schbench", messengers=messengers, workers=workers, ms=ms)
    if messengers >= machine.cpus:
        raise WorkloadError(
            f"schbench: {messengers} message threads on {machine.cpus} CPUs; expected a CPU each, and some for the workers."
        )
    w = Workload("schbench", _rate("requests", "worker"))
    session, others = w.session(), range(messengers, machine.cpus)
    for i in range(messengers):
        mail, work = w.semaphore(), w.semaphore()
        loop = Script().loop().wait(mail).compute(message_ns).post(work).end()
        w.task(f"message-{i}", loop, session=session, allowed=[i], cpu=i, daemon=True)
        body = Script().loop(until_ns=ms * MS).compute(worker_ns).post(mail).wait(work).end()
        for j in range(workers):
            cpu = others[(i * workers + j) % len(others)]
            w.task("worker", body, session=session, allowed=others, cpu=cpu)
    return w


def webserver(
    machine: Machine,
    seed: int,
    connections: int = 100,
    clients: int = 16,
    request_us: float = 80,
    client_us: float = 20,
    ms: int = 100,
) -> Workload:
    """Let client threads keep connections busy. Each connection has a thread of the server (wrk and Apache on one machine).

    ``request_us`` and ``client_us`` are the mean CPU times of a request in the server and in the client. The CPU times of
    requests are exponentially distributed.
    """
    _check("webserver", connections=connections, clients=clients, ms=ms)
    w = Workload("webserver", _rate("requests", "client"))
    server, load = w.session(), w.session()
    for i in range(min(clients, connections)):
        mine = len(range(i, connections, clients))
        requests, replies = w.semaphore(mine), w.semaphore()
        client = Script().loop(until_ns=ms * MS).wait(replies)
        client.compute_exponential(round(client_us * US), MS)
        w.task("client", client.post(requests, sync=True).end(), session=load, cpu=i % machine.cpus)
        body = Script().loop().wait(requests).compute_exponential(round(request_us * US), 2 * MS)
        body.post(replies, sync=True).end()
        for j in range(mine):
            cpu = (seed + i + j * clients) % machine.cpus
            w.task("server", body, session=server, cpu=cpu, daemon=True)
    return w


def database(
    machine: Machine,
    seed: int,
    per_cpu: float = 3.0,
    request_us: float = 400,
    think_us: float = 800,
    ms: int = 100,
) -> Workload:
    """Let terminals send requests that need the CPU for a random time; between requests a terminal thinks for a random time.

    There are ``per_cpu`` terminals per CPU. ``request_us`` and ``think_us`` are means of exponential distributions.
    """
    _check("database", per_cpu=per_cpu, ms=ms)
    w = Workload("database", _rate("requests", "terminal"))
    session = w.session()
    body = Script().loop(until_ns=ms * MS).compute_exponential(round(request_us * US), 10 * MS)
    body.sleep_exponential(round(think_us * US), 20 * MS).end()
    for i in range(round(per_cpu * machine.cpus)):
        w.task("terminal", body, session=session, cpu=(seed + i) % machine.cpus)
    return w


def shell16(
    machine: Machine,
    seed: int,
    copies: int = 0,
    scripts: int = 16,
    commands: int = 6,
    command_us: float = 800,
    ms: int = 300,
) -> Workload:
    """Let copies of UnixBench's ``shell16`` run: each starts 16 scripts at once, waits for all of them, and begins again.

    There is one copy per CPU, unless ``copies`` is given. A script runs its commands one after the other; the CPU time of a
    command is 0.5 to 1.5 times ``command_us``. A loop that has begun before ``ms`` is over is still finished.
    """
    copies = copies or machine.cpus
    _check("shell16", copies=copies, scripts=scripts, commands=commands, ms=ms)
    w = Workload("shell16", _rate("loops", "looper"))
    low, high = (round(command_us * US * share) for share in (0.5, 1.5))
    command = w.template("command", Script().exec().touch().compute(low, high))
    script = Script().exec().compute(200 * US)
    script.loop(commands).compute(50 * US).fork(command).wait_children(0).end()
    started = w.template("sh", script)
    multi = Script().exec().compute(100 * US).loop(scripts).compute(50 * US).fork(started).end()
    one = w.template("multi", multi.wait_children(0))
    looper = Script().loop(until_ns=ms * MS).compute(50 * US).fork(one).wait_children(0).end()
    for i in range(copies):
        w.task("looper", looper, session=w.session(), cpu=(seed + i) % machine.cpus)
    return w
