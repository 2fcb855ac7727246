"""The service of systemd: its unit and the file with its options, and how both files are installed and removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wastedcores.capture.metrics import host_and_port
from wastedcores.capture.service import read_config
from wastedcores.errors import UsageError

NAME = "wastedcores.service"
UNIT, CONFIG = Path(f"etc/systemd/system/{NAME}"), Path("etc/wastedcores/watch.toml")
#: the folders that the service makes while it runs
MADE = (Path("var/lib/wastedcores"), Path("var/cache/wastedcores"))

DEFAULT_CONFIG = """\
# The options of `wastedcores watch`, see `wastedcores watch --help`. Restart the service after a change:
# systemctl restart wastedcores
# After naming a textfile or another folder: wastedcores unit --install, which lets the service write there.
serve = "{serve}"
output = "/var/lib/wastedcores"
keep_mb = 1000
keep_days = 7
"""

_TEMPLATE = """\
[Unit]
Description=Look for CPUs that idle while threads wait

[Service]
Type=notify
ExecStart={program} watch --config /{config}
# the verdicts are no failures
SuccessExitStatus=1 3
Restart=on-failure
RestartSec=10
TimeoutStartSec=180
WatchdogSec=120

# bcc loads the BPF programs with these two, and then gives up what it no longer needs{why}
CapabilityBoundingSet={capabilities}
NoNewPrivileges=yes
LimitMEMLOCK=infinity
StateDirectory=wastedcores
StateDirectoryMode=0700
CacheDirectory=wastedcores
CacheDirectoryMode=0700
Environment=HOME=/var/cache/wastedcores XDG_CACHE_HOME=/var/cache/wastedcores
# they start a thread per CPU otherwise
Environment=OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 NUMBA_NUM_THREADS=1
UMask=0077
MemoryMax=1500M
# a recording may take too much memory to judge, which ends the process that judges it
OOMPolicy=continue
CPUQuota=100%
CPUWeight=20
TasksMax=256
OOMScoreAdjust=500

# bcc and numba make code at run time, so MemoryDenyWriteExecute= cannot be set; bcc reads headers below /lib/modules
SystemCallFilter=@system-service bpf perf_event_open
# a library that tries a newer call, such as polars cachestat(), goes on without it
SystemCallErrorNumber=ENOSYS
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectSystem=strict
{writes}ProtectHome={home}
ProtectControlGroups=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
RemoveIPC=yes
KeyringMode=private

[Install]
WantedBy=multi-user.target
"""


def unit(program: str, root: Path = Path("/"), config: Path | None = None) -> str:
    """Return the unit that runs a program, with the capabilities that this kernel asks for.

    ``config`` is the file of options if there is one; the service may write into the folders that it names.
    """
    capabilities, why = "CAP_BPF CAP_PERFMON", ""
    paranoid = root / "proc/sys/kernel/perf_event_paranoid"
    if paranoid.exists() and int(paranoid.read_text()) > 2:
        capabilities += " CAP_SYS_ADMIN"
        why = ";\n# this kernel's perf_event_paranoid is above 2, so the timers need CAP_SYS_ADMIN at first, too"
    # the interpreter of a virtual environment may be a link to an interpreter in a home folder
    written = _written({} if config is None else read_config(config))
    needed = (program, str(Path(sys.executable).resolve()), __file__, *(f"{p}/" for p in written))
    homes = ("/home/", str(Path("~root").expanduser()))
    home = "read-only" if any(place.startswith(homes) for place in needed) else "yes"
    return _TEMPLATE.format(
        program=program,
        config=CONFIG,
        capabilities=capabilities,
        why=why,
        home=home,
        writes=_writes(written),
    )


def _written(options: dict[str, Any]) -> list[Path]:
    """Return the folders in which the service writes because its options say so."""
    named = [Path("/", options["output"])] if "output" in options else []
    return [*named, Path("/", options["textfile"]).parent] if "textfile" in options else named


def _writes(written: list[Path]) -> str:
    """Return the unit's line that lets the service write into these folders; empty if none is needed."""
    others = [p for p in written if not p.is_relative_to(Path("/", MADE[0]))]
    quoted = [f'"-{p}"'.replace("%", "%%") for p in others]
    return f"ReadWritePaths={' '.join(quoted)}\n" if quoted else ""


def program() -> str:
    """Return the command that starts this copy of wastedcores."""
    beside = Path(sys.executable).parent / "wastedcores"
    return str(beside) if beside.exists() else f"{sys.executable} -m wastedcores"


def install(serve: str, root: Path, say: Callable[[str], None], dry: bool) -> None:
    """Write the unit and the options below a root folder, and start the service if this is the root of this machine.

    An existing file of options stays. With ``dry``, each step is only announced.
    """
    host_and_port(serve)  # a wrong address is refused before anything is written
    kept = root / CONFIG if (root / CONFIG).exists() else None
    texts = {UNIT: unit(program(), config=kept)}
    if kept is None:
        texts[CONFIG] = DEFAULT_CONFIG.format(serve=serve)
    else:
        say(f"keep {kept}")
    for path, text in texts.items():
        say(f"write {root / path}:\n{text}" if dry else f"write {root / path}")
        if dry:
            continue
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        except OSError as e:
            raise UsageError(
                f"{root / path}: cannot be written ({e.strerror}). Installing needs root."
            ) from e
    for command in (["daemon-reload"], ["enable", "--now", NAME]):
        _systemctl(command, root, say, dry)


def uninstall(root: Path, say: Callable[[str], None], dry: bool) -> None:
    """Stop the service, and delete its files and the recordings in its own folder."""
    if (root / UNIT).exists():
        _systemctl(["disable", "--now", NAME], root, say, dry)
    for place in _elsewhere(root / CONFIG):
        say(f"keep {place}, which {CONFIG.name} names; delete it yourself if nothing else needs it")
    for path in (UNIT, CONFIG, CONFIG.parent, *MADE):
        place = root / path
        if not place.exists():
            continue
        if path == CONFIG.parent and set(place.iterdir()) - {root / CONFIG}:
            say(f"keep {place}, which has other files")
            continue
        say(f"delete {place}")
        if dry:
            continue
        try:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        except OSError as e:
            raise UsageError(
                f"{place}: cannot be deleted ({e.strerror}). Uninstalling needs root."
            ) from e
    _systemctl(["daemon-reload"], root, say, dry)


def _elsewhere(config: Path) -> list[Path]:
    """Return what the options name outside of the service's own folders: the evidence, and the file for node_exporter."""
    try:
        options = read_config(config) if config.exists() else {}
    except UsageError:  # the service could not read it either
        return []
    named = [Path("/", options[name]) for name in ("output", "textfile") if name in options]
    return [p for p in named if not p.is_relative_to(Path("/", MADE[0]))]


def _systemctl(arguments: list[str], root: Path, say: Callable[[str], None], dry: bool) -> None:
    if root != Path("/"):
        return
    say(f"run systemctl {' '.join(arguments)}")
    if dry:
        return
    try:
        run = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
    except OSError as e:
        raise UsageError(f"systemctl cannot be run ({e.strerror}): is systemd installed?") from e
    if run.returncode:
        raise UsageError(f"systemctl {' '.join(arguments)} failed: {run.stderr.strip()}.")
