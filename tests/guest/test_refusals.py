"""What cannot be done ends with a paragraph that says what to do."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import namedtuple
from contextlib import suppress

import pytest
from support.typed import typed
from support.waiting import wait_for

from wastedcores.errors import TopologyError, UsageError
from wastedcores.guest import debian, emulator, kernels, places
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError, made_whole, run
from wastedcores.topology.source import find_machine


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WASTEDCORES_DATA_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "guest"


def test_without_an_emulator(empty_cache):
    with pytest.raises(GuestError, match="Build it once: `wastedcores guest build`"):
        emulator.find_emulator()


def test_without_a_compiler(empty_cache, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "gcc" else f"/bin/{name}")
    with pytest.raises(GuestError, match=r"needs gcc, .*Install them: apt install gcc"):
        emulator.build_emulator()
    with pytest.raises(GuestError, match="there is no gcc"):
        emulator.runner()


def test_without_space(empty_cache, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(
        places.shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 10**8, 10**8)
    )
    monkeypatch.setattr(emulator, "NEEDED", {})
    with pytest.raises(GuestError, match="building the emulator needs 1500 MB, and 95 MB are free"):
        emulator.build_emulator()


def test_without_debian(empty_cache, monkeypatch):
    monkeypatch.setattr(debian, "mirrors", dict)
    with pytest.raises(GuestError, match="or give files of your own"):
        kernels.find_kernel("debian:6.12")


def test_without_a_network(empty_cache, monkeypatch, tmp_path):
    (tmp_path / "apt.conf").write_text('Acquire::Retries "0";\n')  # it would wait between its tries
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setattr(debian, "mirrors", lambda: {"main": "http://127.0.0.1:9/debian"})
    monkeypatch.setattr(debian, "KEYRING", places.Path(__file__))
    with pytest.raises(GuestError, match="is the network there"):
        kernels.find_kernel("debian:6.12")


@pytest.mark.parametrize("name", ["6.12", "ubuntu:6.8", "debian:", "debian:six"])
def test_names_that_are_no_kernels(empty_cache, name):
    with pytest.raises(UsageError, match="expected debian: and a release"):
        kernels.find_kernel(name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job.sh", "--until", "2"], "--until: only a scenario has it"),
        (["job.sh", "--set", "n=4"], "--set: only a scenario has it"),
        (["spmd", "--", "--threads", "8"], "only a script or a program has arguments"),
    ],
)
def test_what_a_work_does_not_have_is_refused(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("sleep 1\n")
    done = typed("guest", "record", *words)
    assert done.code == 2
    assert says in done.err


def test_three_cpus_in_two_dies(tmp_path):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({"cpus": 3, "llc_of_cpu": [0, 0, 1], "package_of_cpu": [0, 0, 0]}))
    with pytest.raises(TopologyError, match="the last-level cache of CPU 2 has 1 CPUs"):
        guest_machine(find_machine(str(file)).machine)


def test_a_step_that_fails_shows_its_last_lines(tmp_path):
    with pytest.raises(GuestError, match=r"compiling failed: sh ended with code 3.*no such thing"):
        run(["sh", "-c", "echo no such thing; exit 3"], tmp_path / "log", "compiling")
    assert "no such thing" in (tmp_path / "log").read_text()


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def interrupted():
        with made_whole(tmp_path / "made") as part:
            (part / "half").write_text("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_two_first_uses_do_not_destroy_each_others_work(tmp_path, capsys):
    begun, go_on, found = threading.Event(), threading.Event(), []

    def first():
        with made_whole(tmp_path / "made") as part:
            (part / "half").write_text("")
            begun.set()
            go_on.wait(30)
            (part / "whole").write_text("")
            found.append(sorted(f.name for f in part.iterdir()))

    def second():
        with made_whole(tmp_path / "made") as part:
            found.append(part)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    wait_for(lambda: "another process is making" in capsys.readouterr().err)
    go_on.set()
    for thread in threads:
        thread.join(30)
    # the second one finds that it is there, and makes nothing
    assert found == [["half", "whole"], None]
    assert [f.name for f in tmp_path.iterdir()] == ["made"]
    assert len(list((tmp_path / "made").iterdir())) == 2
    with made_whole(tmp_path / "made") as part:  # asked for again on purpose
        (part / "new").write_text("")
    assert [f.name for f in (tmp_path / "made").iterdir()] == ["new"]


def test_the_one_that_waits_makes_it_if_the_other_one_fails(tmp_path):
    (tmp_path / "made.part").mkdir()
    (tmp_path / "made.part/left").write_text("by a process that was killed")
    begun, parts = threading.Event(), []

    def fails():
        with suppress(KeyboardInterrupt), made_whole(tmp_path / "made") as part:
            parts.append(list(part.iterdir()))
            begun.set()
            time.sleep(0.2)
            raise KeyboardInterrupt

    thread = threading.Thread(target=fails)
    thread.start()
    assert begun.wait(30)
    with made_whole(tmp_path / "made") as part:
        parts.append(list(part.iterdir()))
        (part / "whole").write_text("")
    thread.join()
    assert parts == [[], []]
    assert [f.name for f in (tmp_path / "made").iterdir()] == ["whole"]


def test_a_kernel_in_the_cache_is_found_by_release_and_by_stable_version(empty_cache):
    for abi, version in (
        ("6.1.0-9", "6.1.27-1"),
        ("6.1.0-56", "6.1.192-2"),
        ("6.12.5+deb13", "6.12.5-1"),
        ("6.12.9+deb13.part", "6.12.9-1"),  # another process is still fetching it
    ):
        folder = empty_cache / "kernels" / abi
        folder.mkdir(parents=True)
        told = {"name": f"debian:{abi}", "version": version, "sha256": "", "config_sha256": ""}
        (folder / "kernel.json").write_text(json.dumps(told))
    assert kernels.find_kernel("debian:6.1").release == "6.1.192"
    assert kernels.find_kernel("debian:6.1.27").name == "debian:6.1.0-9"
    assert kernels.find_kernel("debian:6.1.192").model() == "v6.1.192"
    assert kernels.find_kernel("debian:6.1.192").model(("NO_SUCH",)) is None
    assert (
        kernels.find_kernel("debian:6.12").model(("NO_NI_RANDOM",)) is None
    )  # 6.12.5 does not have it
