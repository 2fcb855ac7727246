"""The service of systemd: systemd accepts the unit, and uninstalling leaves nothing of what installing made."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from wastedcores.capture import service, unit
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns

#: a home whichever user runs the tests
HOME = Path("~root").expanduser()


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def written(tmp_path):
    file = tmp_path / "wastedcores.service"
    file.write_text(unit.unit("/bin/true"))
    return file


def test_systemd_accepts_the_unit(written):
    run = systemd_analyze("verify", str(written))
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_systemd_calls_the_unit_well_protected(written):
    """Of 10 the exposure of a service without any protection is 9.6; below 3 it is called OK."""
    run = systemd_analyze("security", "--offline=true", "--threshold=30", str(written))
    assert run.returncode == 0, run.stdout[-200:]
    assert systemd_analyze("security", "--offline=true", "--threshold=5", str(written)).returncode


@pytest.mark.parametrize(
    "line",
    [
        # the libraries start a thread per CPU otherwise, which are more than TasksMax= on large machines
        "Environment=OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 NUMBA_NUM_THREADS=1",
        "TasksMax=256",
        # a process that judges a recording and needs too much memory does not end the service
        "OOMPolicy=continue",
    ],
)
def test_the_service_of_a_large_machine_has_what_it_needs(written, line):
    assert f"\n{line}\n" in written.read_text()


def test_the_service_may_write_where_its_options_say(tmp_path):
    unit.install(":9969", tmp_path, print, dry=False)
    assert "ReadWritePaths" not in (tmp_path / unit.UNIT).read_text()
    options = 'output = "/var/lib/wastedcores/e"\ntextfile = "/var/lib/node 5%/w.prom"\n'
    (tmp_path / unit.CONFIG).write_text(options)
    unit.install(":9969", tmp_path, print, dry=False)
    (line,) = re.findall("^ReadWritePaths=.*$", (tmp_path / unit.UNIT).read_text(), re.MULTILINE)
    assert line == 'ReadWritePaths="-/var/lib/node 5%%"'
    text = unit.unit("/bin/true", config=tmp_path / unit.CONFIG)
    (tmp_path / "w.service").write_text(text)
    run = systemd_analyze("verify", str(tmp_path / "w.service"))
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@pytest.mark.parametrize(
    ("paranoid", "names"),
    [(2, "CAP_BPF CAP_PERFMON"), (3, "CAP_BPF CAP_PERFMON CAP_SYS_ADMIN")],
)
def test_the_capabilities_are_those_that_this_kernel_asks_for(tmp_path, paranoid, names):
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    text = unit.unit("/bin/true", tmp_path)
    assert re.search(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)[1] == names


@pytest.mark.parametrize(
    ("interpreter", "may"), [("/usr/bin/python3", "yes"), (f"{HOME}/.pyenv/no/python", "read-only")]
)
def test_homes_are_hidden_unless_the_interpreter_lies_in_one(
    tmp_path, monkeypatch, interpreter, may
):
    (tmp_path / "python").symlink_to(interpreter)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr(unit, "__file__", "/usr/lib/unit.py")
    assert f"ProtectHome={may}\n" in unit.unit("/opt/wastedcores")


def test_a_home_in_which_the_service_writes_is_not_hidden(tmp_path, monkeypatch):
    """systemd.exec(5): what ProtectHome=yes hides, ReadWritePaths= does not bring back."""
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    monkeypatch.setattr(unit, "__file__", "/usr/lib/unit.py")
    (tmp_path / "watch.toml").write_text(f'output = "{HOME}/evidence"\n')
    text = unit.unit("/opt/wastedcores", config=tmp_path / "watch.toml")
    assert "ProtectHome=read-only\n" in text
    assert f'ReadWritePaths="-{HOME}/evidence"\n' in text


def test_uninstalling_leaves_nothing(tmp_path):
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    said: list[str] = []
    unit.install(":9969", tmp_path, said.append, dry=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert "NoNewPrivileges=yes" in "\n".join(said)
    unit.install(":9969", tmp_path, said.append, dry=False)
    assert service.read_config(tmp_path / unit.CONFIG)["serve"] == ":9969"
    for made in unit.MADE:
        (tmp_path / made).mkdir(parents=True)
        (tmp_path / made / "violation.parquet").write_text("x")
    unit.uninstall(tmp_path, said.append, dry=False)
    left = {p for p in tmp_path.rglob("*") if p.is_file() or "wastedcores" in p.name}
    assert left == set()


def test_uninstalling_says_what_its_options_have_put_elsewhere(tmp_path):
    unit.install(":9969", tmp_path, print, dry=False)
    options = 'output = "/srv/evidence"\ntextfile = "/srv/node/w.prom"\n'
    (tmp_path / unit.CONFIG).write_text(options)
    said: list[str] = []
    unit.uninstall(tmp_path, said.append, dry=False)
    for place in ("/srv/evidence", "/srv/node/w.prom"):
        assert any(line.startswith(f"keep {place},") for line in said)
    unit.install(":9969", tmp_path, print, dry=False)  # with the service's own folder
    said.clear()
    unit.uninstall(tmp_path, said.append, dry=False)
    assert not any(line.startswith("keep") for line in said)


@pytest.mark.parametrize("serve", ["9969", ":port", ":70000", ":\u00b2", 'a"b:1', "a\\b:1"])
def test_a_wrong_address_is_refused_before_anything_is_written(tmp_path, serve):
    with pytest.raises(UsageError, match="expected :PORT or HOST:PORT"):
        unit.install(serve, tmp_path, print, dry=False)
    assert list(tmp_path.iterdir()) == []


def test_an_own_file_of_options_survives_a_second_installation(tmp_path):
    unit.install(":9969", tmp_path, print, dry=False)
    (tmp_path / unit.CONFIG).write_text('serve = ":1"\n')
    unit.install(":9969", tmp_path, print, dry=False)
    assert (tmp_path / unit.CONFIG).read_text() == 'serve = ":1"\n'
    (tmp_path / unit.CONFIG.parent / "secret.key").write_text("x")
    unit.uninstall(tmp_path, print, dry=False)
    assert (tmp_path / unit.CONFIG.parent / "secret.key").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("serve = ", "no TOML"),
        ("port = 9969", "port: extra inputs are not permitted"),
        ("keep_mb = -1", "keep_mb: input should be greater than 0"),
        ("cgroups = 'many'", "cgroups: input should be a valid integer"),
    ],
)
def test_a_wrong_file_of_options_is_refused_with_what_is_known(tmp_path, text, says):
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(says)):
        service.read_config(tmp_path / "w.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        service.read_config(tmp_path / "absent.toml")


def test_options_of_a_file_have_the_units_of_the_command_line(tmp_path):
    (tmp_path / "w.toml").write_text('persist = "50ms"\nbefore = 0\noutput = "/x"\n')
    options = service.read_config(tmp_path / "w.toml")
    assert options == {"persist": "50ms", "before": 0.0, "output": "/x"}
    assert duration_ns(options["persist"], "--persist") == 50_000_000


VIOLATION = {"idle_cpu": 1, "busy_cpu": 0, "pid": 42, "lasted_ms": 105, "number": 3}
VIOLATION |= {"began_ns": 7_000_000, "confirmed_ns": 112_000_000}


def test_the_journal_gets_fields(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        service.log(VIOLATION, str(tmp_path / "journal"))
        lines = journal.recv(4096).decode().splitlines()
    assert "WASTEDCORES_IDLE_CPU=1" in lines
    assert "PRIORITY=4" in lines
    assert lines[0] == "MESSAGE=CPU 1 was idle for 105 ms while pid 42 waited on CPU 0"


def test_a_violation_is_not_in_the_journal_as_a_line_of_output_too(monkeypatch):
    def live_check(options, *, progress, **_):
        for line in ("looking", "VIOLATION 3: CPU 1 was idle", "9 checks, 0 suspected"):
            progress(line)
        return LiveCheck(options, "bpf")

    monkeypatch.setattr(service, "live_check", live_check)
    for stream, lines in ((None, ["looking", "VIOLATION 3: CPU 1 was idle"]), ("8:1", ["looking"])):
        if stream:
            monkeypatch.setenv("JOURNAL_STREAM", stream)
        else:
            monkeypatch.delenv("JOURNAL_STREAM", raising=False)
        said: list[str] = []
        service.run_service(service.ServiceOptions(), LiveOptions(), progress=said.append)
        assert said == lines


def test_systemd_is_told_that_the_service_looks(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        service.notify("READY=1")
        assert notified.recv(100) == b"READY=1"
    monkeypatch.delenv("NOTIFY_SOCKET")
    service.notify("READY=1")
