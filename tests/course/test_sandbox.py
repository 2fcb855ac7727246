"""Code in the sandbox can do nothing to the machine, to other submissions or to the grader, and never outlives its limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from wastedcores_course import sandbox
from wastedcores_course.sandbox import Limits, NoSandboxError, isolated

ROOT = Path(__file__).resolve().parents[2]
QUICK = Limits(wall_s=20, memory=400 << 20, tasks=64, disk=8 << 20)


def outcome(tmp_path, code, limits=QUICK, results=(), **more):
    program = tmp_path / "program.py"
    program.write_text(code)
    return isolated(
        [sys.executable, "program.py"], {"program.py": program}, results, limits=limits, **more
    )


def tried(tmp_path, *attempts):
    """Run expressions in the sandbox, and return the value or the class of the exception of each."""
    lines = ["import os, socket, subprocess, sys"]
    for attempt in attempts:
        lines += [f"try: print({attempt})", "except Exception as e: print(type(e).__name__)"]
    return outcome(tmp_path, "\n".join(lines)).log.splitlines()


def test_it_sees_python_the_package_and_its_own_folder_only(tmp_path):
    secret = tmp_path / "of-another-student.ipynb"
    secret.write_text("the right answers")
    here, *others, package = tried(
        tmp_path,
        "sorted(os.listdir())",
        f"open({str(secret)!r}).read()",
        "open('/etc/shadow').read()",
        f"open({str(ROOT / 'notebooks/00_how_cfs_balances.ipynb')!r}).read()",
        "__import__('wastedcores').__name__",
    )
    assert here == "['log', 'program.py']"
    assert others == ["FileNotFoundError"] * 3
    assert package == "wastedcores"


def test_it_writes_to_its_own_folder_only(tmp_path):
    found = tried(
        tmp_path,
        "open('mine', 'w').write('x')",
        "open('../outside', 'w')",
        f"open({str(tmp_path / 'outside')!r}, 'w')",
        "open(os.__file__, 'a')",
        "open(__import__('wastedcores').__file__, 'a')",
        "open('/proc/sys/kernel/core_pattern', 'w')",
    )
    assert found[0] == "1"
    assert set(found[1:]) <= {"OSError", "FileNotFoundError", "PermissionError"}
    assert not (tmp_path / "outside").exists()


def test_it_has_no_privilege_and_cannot_get_any(tmp_path):
    found = tried(
        tmp_path,
        "[x for x in open('/proc/self/status') if x.startswith(('CapEff', 'CapPrm', 'NoNewPrivs'))]",
        "subprocess.run(['mount', '-o', 'remount,rw', '/'], capture_output=True).returncode > 0",
        "subprocess.run(['unshare', '-Urm', 'mount', '-o', 'remount,rw,bind', '/usr'], capture_output=True).returncode > 0",
        "open('/proc/1/mem', 'rb')",
        "open('/proc/1/fd/1', 'w')",
        "open('/proc/1/environ').read()",
    )
    assert found[0].count("0000000000000000") == 2
    assert "NoNewPrivs:\\t1" in found[0]
    assert found[1:] == ["True", "True", "PermissionError", "PermissionError", "PermissionError"]


def test_it_has_no_network_but_its_own_loopback(tmp_path):
    found = tried(
        tmp_path,
        "socket.create_connection(('192.0.2.1', 80), timeout=3)",
        "socket.getaddrinfo('example.org', 80)",
        "[name for _, name in socket.if_nameindex()]",
        "socket.create_server(('127.0.0.1', 0)).fileno() > 0",
    )
    assert found == ["OSError", "gaierror", "['lo']", "True"]


def test_processes_are_limited_and_none_survives(tmp_path):
    name = f"forks-{os.getpid()}.py"  # it is on the command line of each fork
    program = tmp_path / name
    program.write_text("""
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(31)
        n += 1
except BlockingIOError:
    print("stopped after", n, open("/proc/self/cmdline").read().split("\\0")[-2])
    time.sleep(1)  # until it has been counted
""")
    found = isolated([sys.executable, name], {name: program}, [], limits=QUICK)
    assert found.log == f"stopped after 63 {name}\n"
    assert found.tasks == 64
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if name in _text(p)]


def _text(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_two_sandboxes_do_not_share_the_limit_of_processes(tmp_path):
    """The kernel counts processes per user and user namespace; as root both sandboxes run as the same user."""
    from concurrent.futures import ThreadPoolExecutor

    code = "import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(2); os._exit(0)\nprint('all')"
    for name in "ab":
        (tmp_path / name).mkdir()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda name: outcome(tmp_path / name, code).log, "ab"))
    assert found == ["all\n", "all\n"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time\ntime.sleep(3600)", "time"),
        ("while True: pass", "time"),
        ("import os, time\nif os.fork(): os._exit(0)\nos.setsid()\ntime.sleep(3600)", ""),
        ("x = []\nwhile True: x.append(bytearray(10_000_000))", "memory"),
        (
            "import os\nx = []\nfor _ in range(8):\n    if os.fork() == 0: break\nwhile True: x.append(bytearray(1_000_000))",
            "memory",
        ),
    ],
    ids=["sleeps", "computes", "leaves a daemon", "takes memory", "takes memory in many processes"],
)
def test_a_limit_ends_it(tmp_path, code, reason):
    began = time.monotonic()
    found = outcome(tmp_path, code, Limits(wall_s=3, memory=400 << 20, tasks=64))
    assert found.reason == reason
    assert time.monotonic() - began < 20


def test_pages_that_processes_share_count_once(tmp_path):
    code = """
import os, time
x = bytearray(b"x" * 100_000_000)
for _ in range(20):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
os.wait()
"""
    found = outcome(tmp_path, code)
    assert (found.returncode, found.reason) == (0, "")
    assert found.cpu_s > 0


def test_files_are_limited_and_links_are_not_followed(tmp_path):
    code = """
import os
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
open("good", "w").write("yes")
try:
    open("/dev/shm/big", "wb").write(bytes(50 << 20))
except OSError as e:
    print(e.strerror)
"""
    found = outcome(tmp_path, code, results=["link", "pipe", "good", "missing"])
    assert found.files == {"good": b"yes"}
    assert found.log in ("No space left on device\n", "File too large\n")


def test_names_and_files_that_are_no_text_do_not_disturb_the_watcher(tmp_path):
    code = """
import ctypes, os, time
os.mkdir("result")
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe\\nRssAnon:", 0, 0, 0)
time.sleep(0.3)
print("\\ud800".encode(errors="surrogatepass"))
"""
    found = outcome(tmp_path, code, results=["result"])
    assert (found.returncode, found.reason, found.files) == (0, "", {})


def test_a_sandbox_that_ends_without_a_result_is_an_outcome(tmp_path, monkeypatch):
    done = subprocess.CompletedProcess([], -9, '{"built": true}\n{"returncode": 0, "fi', "")
    monkeypatch.setattr(sandbox, "in_namespaces", lambda *given: done)
    assert outcome(tmp_path, "").reason == "lost"


def test_a_folder_of_the_package_can_be_hidden(tmp_path):
    code = """
try:
    import wastedcores_course.answers.average_and_minimum
except ImportError:
    print("no")
"""
    folder = ROOT / "wastedcores_course/answers"
    assert outcome(tmp_path, code).log == ""
    assert outcome(tmp_path, code, hidden=[folder]).log == "no\n"


def test_what_is_compiled_inside_is_lost_unless_the_command_is_trusted(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    write = "import sys\nopen('/cache/x', 'a').write(open('/cache/x').read() if 0 else 'once ')\nprint(open('/cache/x').read())"
    assert outcome(tmp_path, write, cache=cache, cache_written=True).log == "once \n"
    assert outcome(tmp_path, write, cache=cache).log == "once once \n"
    assert outcome(tmp_path, write, cache=cache).log == "once once \n"


def test_nothing_of_the_graders_environment_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("LECTURERS_PASSWORD", "x")
    found = tried(tmp_path, "'LECTURERS_PASSWORD' in os.environ", "os.environ['HOME']")
    assert found == ["False", "/submission"]


def test_a_machine_that_forbids_it_is_named_in_one_sentence(tmp_path, monkeypatch):
    tool = tmp_path / "bin/unshare"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n"
    )
    tool.chmod(0o755)
    found = shutil.which
    monkeypatch.setattr(
        sandbox.shutil,
        "which",
        lambda name, path=None: str(tool) if name == "unshare" else found(name, path=path),
    )
    with pytest.raises(
        NoSandboxError,
        match=r"does not let you create a sandbox \(unshare: .* not permitted\)\. .*--no-sandbox",
    ):
        outcome(tmp_path, "")


@pytest.fixture
def open_folder():
    """A folder that other users can enter, as pytest's own cannot."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_ordinary_user_gets_the_same_sandbox(open_folder):
    """A copy of the sandbox runs as `nobody` under the distribution's Python, which that user can read."""
    python = "/usr/bin/python3"
    if not Path(python).exists() or not shutil.which("runuser"):
        pytest.skip("needs the distribution's Python and runuser")
    for package in ("wastedcores", "wastedcores_course"):
        shutil.copytree(
            ROOT / package,
            open_folder / package,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    (open_folder / "pyproject.toml").touch()
    (open_folder / "inner.py").write_text(
        "import os\n"
        "print([x for x in open('/proc/self/status') if x.startswith('CapEff')])\n"
        "for name in ('/proc/1/mem', '/proc/1/fd/1', '/proc/1/environ'):\n"
        "    try: open(name, 'rb').read()\n"
        "    except OSError as e: print(type(e).__name__)\n"
        "n = 0\n"
        "try:\n"
        "    while n < 99:\n"
        "        if os.fork() == 0: __import__('time').sleep(9)\n"
        "        n += 1\n"
        "except OSError: print(n)\n"
    )
    (open_folder / "outer.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom wastedcores_course.sandbox import *\n"
        "found = isolated([sys.executable, 'inner.py'], {'inner.py': Path('inner.py')}, [], limits=Limits(tasks=30))\n"
        "print(found.log)\n"
    )
    done = subprocess.run(
        ["runuser", "-u", "nobody", "--", python, "outer.py"],
        cwd=open_folder, env={"PYTHONPATH": str(open_folder), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == [
        "['CapEff:\\t0000000000000000\\n']", "PermissionError", "PermissionError", "PermissionError", "29",
    ], done.stderr  # fmt: skip
