"""Schedulers for sched_ext: what is refused and why, what the header says, and guests that run our own and two that fail."""

from __future__ import annotations

import hashlib
import subprocess

import polars as pl
import pytest

from wastedcores import check
from wastedcores.analysis.stated_machine import place
from wastedcores.errors import UsageError
from wastedcores.files import find
from wastedcores.guest import has_emulator, scx
from wastedcores.guest.boot import ROUND_NS, Options, setup_script
from wastedcores.guest.emulator import Emulator, missing_of
from wastedcores.guest.jobs import Work, program_work
from wastedcores.guest.kernels import Kernel, fetched_kernels
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError
from wastedcores.guest.record import Received, _provenance, record_all
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

MACHINE = guest_machine(Machine.preset("guest-4"))
#: of Debian's kernels (CONFIG_HZ=250); what the scheduler leaves undone it mends at the next tick
TICK_NS = 4_000_000
HEAD = b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\xf7\0" + bytes(44)
OBJECT = HEAD + b"\0.rel.struct_ops.link\0sched_ext_ops\0.struct_ops.link\0"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"int x;", "not a BPF object"),
        (HEAD[:18] + b"\x3e\0" + OBJECT[20:], "not a BPF object"),
        (HEAD + b"\0.maps\0", "without a scheduler"),
        (HEAD + b"\0.struct_ops\0tcp_congestion_ops\0", "without a scheduler"),
    ],
)
def test_files_that_are_no_schedulers(tmp_path, content, words):
    file = tmp_path / "mine.bpf.o"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=rf"--scx .*mine.bpf.o: .*{words}.*xpected"):
        scx.find_scheduler(str(file))


def test_a_scheduler_stays_when_its_loader_ends(tmp_path, monkeypatch):
    (tmp_path / "mine.bpf.o").write_bytes(OBJECT)
    monkeypatch.setattr(scx, "loader", lambda: tmp_path / "mine.bpf.o")
    scheduler = scx.find_scheduler(str(tmp_path / "mine.bpf.o"))
    given = scheduler.files()["scheduler.bpf.o"]
    assert len(given) == len(OBJECT)
    assert given.count(b".struct_ops\0") == 2
    assert b"link" not in given
    assert scheduler.sha256 == hashlib.sha256(OBJECT).hexdigest()  # of the file as it was given


def configured(folder, lines: str) -> Kernel:
    (folder / "config").write_text(lines)
    return Kernel("debian:6.1", folder / "vmlinuz", "", "6.1.9-1", config_sha256="known")


def test_a_kernel_without_sched_ext_is_refused_before_it_is_booted(tmp_path):
    lines = "CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\n# CONFIG_SCHED_CLASS_EXT is not set\n"
    kernel = configured(tmp_path, lines + "CONFIG_DEBUG_INFO_BTF=m\n")
    scheduler = scx.Scheduler("mine.bpf.o", OBJECT)
    with pytest.raises(
        GuestError,
        match=r"^debian:6.1: .*lacks CONFIG_DEBUG_INFO_BTF, CONFIG_SCHED_CLASS_EXT\. Expected .*--kernel debian:6.18",
    ):
        record_all(
            [Work("w", {})],
            kernel,
            MACHINE,
            Options(scheduler=scheduler),
            Emulator(tmp_path, "", ""),
        )


def test_a_kernel_with_sched_ext_or_of_unknown_configuration_is_not(tmp_path):
    scx.check_kernel(configured(tmp_path, "".join(f"CONFIG_{name}=y\n" for name in scx.CONFIG)))
    (tmp_path / "config").write_text("")
    scx.check_kernel(Kernel("bzImage", tmp_path / "bzImage", ""))


def test_the_loader_comes_after_the_settings():
    lines = setup_script(
        MACHINE, Options(("NO_PLACE_LAG",), scheduler=scx.Scheduler("x", b""))
    ).splitlines()
    assert lines[-2:] == [scx.LOADED, "sleep 0.5"]
    assert scx.LOADED not in setup_script(MACHINE, Options())


def test_the_header_says_which_file_was_loaded(tmp_path):
    kernel = Kernel("bzImage", tmp_path / "bzImage", "")
    told = [
        _provenance(Received(tmp_path), Work("w", {}), kernel, MACHINE, options, Emulator(tmp_path, "", ""))
        for options in (Options(scheduler=scx.Scheduler("mine.bpf.o", b"abc")), Options())
    ]  # fmt: skip
    assert told[0]["scheduler_file"] == "mine.bpf.o"
    assert told[0]["scheduler_sha256"] == hashlib.sha256(b"abc").hexdigest()
    assert not any(key.startswith("scheduler") for key in told[1])


def test_what_depends_on_the_kernels_own_scheduler_has_low_trust():
    header = Header(source_format="ftrace", cpus=4, kernel_release="6.18.15+deb13-amd64")
    trace = Trace(pl.DataFrame().lazy(), header)
    assert place(trace, MACHINE.machine, None).assumed == ()
    (said,) = place(trace.with_header(scheduler="mine"), MACHINE.machine, None).assumed
    assert "the scheduler mine ran instead of the kernel's own" in said


def test_without_what_the_loader_is_linked_with(monkeypatch, tmp_path):
    monkeypatch.setenv("WASTEDCORES_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(scx, "NEEDED", {"/no/such/bpf.h": "libbpf-dev"})
    with pytest.raises(GuestError, match=r"needs /no/such/bpf.h, .*apt install libbpf-dev"):
        scx.loader()


def compiled(folder, changes=()) -> scx.Scheduler:
    """Compile our own scheduler, with these pieces of its text replaced."""
    if missing := missing_of(scx.COMPILER):
        pytest.skip(f"compiling a scheduler: apt install {' '.join(missing.values())}")
    text = find(*scx.SOURCE.split("/")).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "s.bpf.c").write_text(text)
    subprocess.run(
        [*scx.CLANG, "-Wall", "-Werror", "-c", "s.bpf.c", "-o", "s.bpf.o"], cwd=folder, check=True
    )
    return scx.find_scheduler(str(folder / "s.bpf.o"))


def test_our_own_scheduler_compiles_without_warnings(tmp_path):
    assert compiled(tmp_path).content.count(b"work_conserving\0")


def takes_schedulers(kernel: Kernel) -> bool:
    config = kernel.image.with_name("config")
    return config.exists() and "CONFIG_SCHED_CLASS_EXT=y" in config.read_text()


@pytest.fixture(scope="module")
def kernel():
    """A kernel that takes schedulers; without it or the emulator, the test is skipped with the command that makes them."""
    if not has_emulator():
        pytest.skip("there is no emulator: wastedcores guest build")
    fitting = [k for k in fetched_kernels() if takes_schedulers(k)]
    if not fitting:
        pytest.skip("there is no kernel: wastedcores guest kernels --fetch debian:6.18.15")
    if missing := missing_of(scx.NEEDED):
        pytest.skip(f"the loader cannot be linked: apt install {' '.join(missing.values())}")
    return fitting[0]


def crowd() -> Work:
    """Six threads for four CPUs; two of them may use one CPU only, which they share."""
    w = Workload("crowd")
    for n in range(6):
        script = Script().loop(40).compute(4_000_000).sleep(500_000).end()
        w.task(f"crowd-{n}", script, **({"allowed": [3], "cpu": 3} if n < 2 else {}))
    return program_work("crowd", w.program(), 1)


@pytest.mark.slow
def test_our_own_scheduler_leaves_no_cpu_idle(kernel, tmp_path):
    # as most schedulers are compiled; test_a_scheduler_stays_when_its_loader_ends
    scheduler = compiled(tmp_path, [('SEC(".struct_ops")', 'SEC(".struct_ops.link")')])
    trace = record_all([crowd()], kernel, MACHINE, Options(scheduler=scheduler))[0]
    assert trace.header.scheduler == "work_conserving"
    assert trace.header.provenance["scheduler_sha256"] == scheduler.sha256
    assert trace.header.kernel_model is None
    found = check(trace)
    assert found.verdict == "clean"
    assert found.waiting_ns > found.duration_ns / 2  # six threads for four CPUs
    assert found.longest_ns < TICK_NS + ROUND_NS


#: an error that the kernel notices when a thread of the crowd runs, so not before the loader has ended
CRASH = [
    ("\tstruct sched_ext_entity scx;\n", "\tstruct sched_ext_entity scx;\n\tchar comm[16];\n"),
    (
        "if (scx_bpf_dsq_nr_queued(QUEUE) <= 0)\n\t\treturn;",
        "if (running->comm[0] == 'c' && running->comm[1] == 'r' && running->comm[2] == 'o')\n\t\tscx_bpf_kick_cpu(-1, 0);",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("return scx_bpf_create_dsq(QUEUE, -1);", "return *(volatile s32 *)(long)ctx[5];")], "verifier: "),
        ([("return scx_bpf_create_dsq(QUEUE, -1);", "return -12;")], "ended at once"),
        (CRASH, "did not keep the scheduler"),
    ],
)  # fmt: skip
def test_a_scheduler_that_fails_ends_the_recording(kernel, tmp_path, changes, words):
    options = Options(scheduler=compiled(tmp_path, changes))
    with pytest.raises(GuestError, match=words) as e:
        record_all([crowd()], kernel, MACHINE, options)
    assert "last lines of its console" in str(e.value)


@pytest.mark.slow
def test_an_image_without_sched_ext_says_so(kernel):
    # Debian's 6.12.118 is built without sched_ext, and its 6.18.15 with it
    lacking = [k for k in fetched_kernels() if k.release.startswith(("6.1.", "6.12."))]
    if not lacking:
        pytest.skip("no kernel without it is here: wastedcores guest kernels --fetch debian:6.12")
    image = Kernel.of_image(lacking[-1].image)
    options = Options(scheduler=scx.Scheduler("mine.bpf.o", OBJECT))
    with pytest.raises(GuestError, match=r"it has no /sys/kernel/sched_ext\. Expected .*--kernel"):
        record_all([crowd()], image, MACHINE, options)
