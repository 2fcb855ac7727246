"""``wastedcores domains``: its JSON equals the printed domains, hotplug keeps its order, exit codes and errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.domain_oracle import load
from support.typed import typed

from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.parquet import stream_parquet
from wastedcores.trace.schema import empty


def run(*args):
    return typed("domains", *args)


def plain(events):
    keep = ("level", "span")
    return [
        {
            "when": e["when"],
            "domains": {
                c: [
                    {k: d[k] for k in keep}
                    | {"groups": [{"span": g["span"], "mask": g["mask"]} for g in d["groups"]]}
                    for d in domains
                ]
                for c, domains in e["domains"].items()
            },
        }
        for e in events
    ]


@pytest.mark.parametrize(
    ("case", "kernel"),
    [(("4.1.3", "bd-paper-8x2-pair"), "v4.1"), (("4.12", "bd-paper-8x2-pair"), "v4.12"), (("6.1", "ring8x2"), "v6.1"),
     (("4.1.3-patched", "cube3-8x1"), None), (("4.1.3", "asym-ring4x2"), None)],
)  # fmt: skip
def test_json_is_the_oracles(case, kernel, tmp_path):
    want = load(*case)
    path = tmp_path / "case.json"
    path.write_text(json.dumps(want))
    args = ["--machine", path, "--json"] + (["--kernel", kernel, "--sched-debug"] if kernel else [])
    for event in want["events"][1:]:
        _, cpu, what = event["when"].split()
        args += [f"--{what}", cpu.removeprefix("cpu")]
    done = run(*args)
    assert done.code == 0, done.err
    got = json.loads(done.out)
    debug = bool(kernel) or want["sched_debug"]
    keys = ["schema", "kernel", *["sched_debug"] * debug, "cpus", "machine", "events"]
    assert list(got) == keys
    assert got["kernel"] == (kernel or want["kernel"])
    assert got["cpus"] == want["cpus"]
    assert got["events"] == plain(want["events"])


def test_sched_debug_of_the_file_can_be_overridden(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps(load("4.1.3", "star4-hub0-x2")))
    with_it, without = (
        run("--machine", path, "--json"),
        run("--machine", path, "--no-sched-debug", "--json"),
    )
    assert with_it.out != without.out


def test_printed_domains_of_sched_debug_can_be_read_again(tmp_path):
    case, printed = tmp_path / "case.json", tmp_path / "printed.json"
    case.write_text(json.dumps(load("4.1.3", "star4-hub0-x2")))
    printed.write_text(run("--machine", case, "--json").out)
    again = json.loads(run("--machine", printed, "--json").out)
    assert again["events"] == json.loads(printed.read_text())["events"]


def test_hotplug_steps_keep_their_order():
    done = run(
        "--machine",
        "uma8",
        "--offline",
        "3",
        "--offline=5",
        "--online",
        "3",
        "--offline",
        "6-7",
        "--json",
    )
    assert [e["when"] for e in json.loads(done.out)["events"]] == [
        "boot", "after cpu3 offline", "after cpu5 offline", "after cpu3 online",
        "after cpu6 offline", "after cpu7 offline",
    ]  # fmt: skip


def test_one_cpu_only():
    done = run("--machine", "bulldozer8x8", "--cpu", "16", "--json")
    (domains,) = json.loads(done.out)["events"][0]["domains"].values()
    assert [d["level"] for d in domains] == ["SMT", "MC", "NUMA", "NUMA"]


def test_text_says_which_cpus_see_which_groups():
    done = run("--machine", "bulldozer8x8", "--kernel", "v4.1")
    assert done.code == 0
    assert "CPUs 16-23, as CPU 16" in done.out
    assert "{0-23,32-39,48-55} {8-47,56-63}" in done.out


def test_text_keeps_cpus_apart_whose_domains_have_other_levels(tmp_path):
    """CPUs 0 and 1 are threads of a core; 2 and 3 are cores with a common L2 cache."""
    path = tmp_path / "hybrid.json"
    path.write_text(json.dumps({"cpus": 4, "core_of_cpu": [0, 0, 1, 2], "l2_of_cpu": [0, 0, 1, 1]}))
    done = run("--machine", path, "--kernel", "v6.12")
    assert "CPUs 0-1, as CPU 0\n    SMT" in done.out
    assert "CPUs 2-3, as CPU 2\n    CLS" in done.out


def test_a_cpu_without_domains_is_offline_or_has_nothing_to_balance_with():
    done = run("--machine", "nodes-2x1", "--offline", "1", "--cpu", "0-1")
    assert "boot: 2 CPUs online" in done.out
    assert "after cpu1 offline: 1 CPU online" in done.out
    assert "CPU 0\n    no domains: nothing to balance with\n  CPU 1\n    offline" in done.out


def test_lint_names_no_designated_cpus_where_every_cpu_balances():
    machine = ["--machine", "bulldozer8x8", "--lint", "--pin", "8-23", "--kernel"]
    paper, patch = (run(*machine, f"v4.1+group_construction{r}").out for r in ("", ":patch"))
    assert "designated CPUs" in paper
    assert "designated" not in patch


def test_lint_exit_codes_text_and_json():
    bug = ["--machine", "bulldozer8x8", "--lint", "--pin", "8-23"]
    found = run(*bug, "--kernel", "v4.1")
    assert found.code == 1
    assert "from {8-15}" in found.out
    assert "to   {16-23}" in found.out
    for kernel in ("v4.1+group_construction", "v4.13", "v6.1"):
        fine = run(*bug, "--kernel", kernel)
        assert fine.code == 0
        assert "load can get from every CPU to every other" in fine.out
    found = json.loads(run(*bug, "--json").out)["lint"]
    assert {(tuple(p["from"]), tuple(p["to"])) for p in found["pairs"]} == {
        (tuple(range(8, 16)), tuple(range(16, 24))),
        (tuple(range(16, 24)), tuple(range(8, 16))),
    }
    assert any(d["level"] == "NUMA<=22" for d in found["designated"])


def test_live_machine_in_a_process_of_its_own():
    command = [sys.executable, "-c", "from wastedcores.cli import main; main()", "domains"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "agrees with" in done.stdout or "does not show" in done.stdout


@pytest.mark.parametrize(
    ("release", "model", "marked"),
    [
        ("6.12.107+deb13-amd64", "v6.12.107", ""),
        ("6.19.3-arch1-1", "v6.19.3", "is between v6.18 and v7.2"),
        ("7.2.13+deb14-amd64", "v7.2.13", ""),
        ("7.9.0-rc1+", "v7.2", "is newer than v7.2"),
        ("5.14.0-503.el9.x86_64", "v5.14", "its vendor"),
        ("6.6.51+rpt-rpi-v8", "v6.6.51", "is not for x86-64"),
    ],
)
def test_a_live_kernel_is_never_replaced_in_silence(release, model, marked, monkeypatch):
    monkeypatch.setattr("platform.release", lambda: release)
    text = run("--machine", "live")
    assert text.code == 0
    assert f", kernel {model}\n" in text.out
    assert ("NOTE: " in text.out) == bool(marked)
    assert marked in " ".join(text.out.split())
    told = json.loads(run("--machine", "live", "--json").out)
    assert told["kernel"] == release
    assert told.get("model") == (model if marked else None)


def test_a_live_kernel_that_is_too_old_gets_the_domains_of_the_oldest_one_and_a_note(monkeypatch):
    monkeypatch.setattr("platform.release", lambda: "3.10.0-1160.el7.x86_64")
    done = run("--machine", "live")
    assert done.code == 0
    assert ", kernel v3.19\n" in done.out
    assert "is older than v3.19" in " ".join(done.out.split())


def test_a_description_without_a_kernel_needs_one(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"cpus": 2}')
    done = run("--machine", path)
    assert done.code == 2
    assert "does not say which kernel ran on this machine" in done.err
    assert run("--machine", path, "--kernel", "v6.12").code == 0


@pytest.mark.parametrize("release", ["6.12.107+deb13-amd64", "7.3.1-arch1-1"])
def test_the_kernel_of_a_trace_is_its_own(release, tmp_path):
    machine = Machine.preset("uma8").to_dict()
    header = Header(source_format="test", kernel_release=release, machine=machine)
    for facts, model in (
        ({}, None),
        ({"kernel_model": "v4.1+group_construction"}, "v4.1+group_construction"),
    ):
        path = tmp_path / "t.parquet"
        stream_parquet([empty()], lambda facts=facts: header.model_copy(update=facts), path)
        done = run("--machine", path)
        assert done.code == 0
        expected = model or ("v6.12.107" if "6.12" in release else "v7.2")
        assert f", kernel {expected}\n" in done.out
        assert ("NOTE" in done.out) == (model is None and "7.3" in release)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--machine", "bulldozer"), "did you mean bulldozer8x8?"),
        (("--machine", "uma8", "--kernel", "v9.9"), "kernel 'v9.9' is newer than v7.2"),
        (("--machine", "uma8", "--offline", "8"), "cannot take CPU 8 offline"),
        (("--machine", "uma8", "--online", "2"), "it is online already"),
        (("--machine", "uma8", "--offline", "x"), "--offline: 'x'"),
        (("--machine", "uma8", "--cpu", "9"), "the machine has CPUs 0-7"),
        (("--machine", "uma8", "--pin", "1"), "give --lint too"),
        (("--machine", "uma8", "--lint", "--pin", "1-9"), "the machine has CPUs 0-7"),
        (
            ("--machine", "uma8", "--lint", "--offline", "1", "--pin", "1"),
            "none of the CPUs 1 is online",
        ),
    ],
)
def test_errors_are_one_paragraph(args, message):
    done = run(*args)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not done.out


@pytest.mark.parametrize(
    "bad", ["{}", '{"cpus": 2, "distance": [[10, 20], [30, 10]], "node_of_cpu": [0, 1]}', "[]"]
)
def test_bad_machine_files(tmp_path, bad):
    path = tmp_path / "machine.json"
    path.write_text(bad)
    done = run("--machine", path)
    assert done.code == 2
    assert done.err.startswith("wastedcores: ")
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_json_is_a_machine_for_another_call(tmp_path):
    """The file that --json printed was read as one flat domain once, and then refused."""
    asked = ("--machine", "epyc-7742-nps4", "--kernel", "v6.1")
    path = tmp_path / "e.json"
    path.write_text(run(*asked, "--json").out)
    again = run("--machine", path, "--json")
    assert json.loads(again.out) == json.loads(path.read_text())
    assert len(json.loads(again.out)["events"][0]["domains"]["0"]) == 5
    path.write_text(run(*asked, "--lint", "--json").out)
    assert run("--machine", path, "--json").out == again.out
    # what is printed about a release whose domains may differ has a note
    path.write_text(json.dumps(json.loads(again.out) | {"kernel": "5.14.0-427.el9.x86_64"}))
    noted = run("--machine", path, "--json").out
    assert "its own may differ" in json.loads(noted)["note"]
    path.write_text(noted)
    assert run("--machine", path, "--json").out == noted
    path.write_text(json.dumps(json.loads(again.out) | {"distances": [[10]]}))
    refused = run("--machine", path, "--json")
    assert refused.code == 2
    assert "unknown field 'distances' beside 'machine'" in refused.err
