"""``replay``, ``compare`` and ``scenarios`` as a user types them, with and without mistakes."""

from __future__ import annotations

import json
import shlex

import pytest
from support.typed import typed

from wastedcores.errors import ModelWarning, UsageError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import replay
from wastedcores.trace.io import open_trace
from wastedcores.workload import Script, Workload
from wastedcores.workload.scenarios import SCENARIOS, as_text

SMALL = ("--machine", "bd-paper-16", "--set", "jobs=10")
WRONG = [
    ("replay nosuch", "scenario 'nosuch' is unknown. Known are group-imbalance"),
    ("replay recorded-gy", "Did you mean recorded-gi?"),
    ("replay recorded-gi --kernel v4.1+missing_domain", "did you mean missing_domains?"),
    ("replay recorded-gi --kernel nonsense", "a version from v3.19 to v7.2"),
    ("replay recorded-gi --kernel v6.1", "the balancer of exactly this release"),
    ("replay recorded-gi --kernel=", "kernel '' is unknown"),
    ("replay recorded-gi --machine nosuch", "neither a preset nor an existing file"),
    ("replay recorded-gc --machine uma8", "has 1 nodes; this workload is pinned"),
    ("replay recorded-gi --seed 18446744073709551615", "expected a whole number from 0 to 2^63"),
    ("replay recorded-gi --set jobs", "expected NAME=VALUE"),
    ("replay recorded-gi --set =3", "expected NAME=VALUE"),
    ("replay recorded-gi --set jobs=", "jobs=''; expected a whole number from 0"),
    ("replay recorded-gi --set job=3", "no parameter 'job'; did you mean jobs"),
    ("replay recorded-gi --set jobs=many", "jobs=many; expected a whole number"),
    ("replay recorded-gi --set jobs=1e3", "jobs=1e3; expected a whole number"),
    ("replay recorded-gi --set jobs=-5", "jobs=-5; expected a whole number from 0"),
    ("replay recorded-gi --set jobs=0", "recorded-gi with jobs=0: a loop of 0 rounds"),
    ("replay recorded-gi --set lo_us=5 --set hi_us=4", "with lo_us=5, hi_us=4: compute between"),
    (
        "replay recorded-gi --set lo_us=99999999999999999999",
        "expected a whole number from 0 to 1000",
    ),
    ("replay recorded-gi --until 0", "--until 0: expected simulated seconds above 0"),
    ("replay recorded-gi --until -1", "--until -1: expected simulated"),
    ("replay recorded-gi --until nan", "--until nan: expected simulated"),
    ("replay recorded-gi --until 1e30", "--until 1e+30: expected simulated"),
    ("replay recorded-gc --set limit_s=nan", "limit_s=nan; expected a number from 0"),
    ("replay recorded-gc --set limit_s=inf", "limit_s=inf; expected a number from 0"),
    ("replay recorded-ms --set hotplug=99", "has no CPU 99 to take offline, only 0-63"),
    ("replay recorded-ms --set hotplug=abc", "with hotplug=abc: "),
    ("replay recorded-lu --set pinned=maybe", "pinned=maybe; expected true or false"),
    ("replay recorded-db --set group=7", "64 workers do not divide into groups of 7"),
    ("replay hackbench --set groups=100000", "receivers in all"),
    ("replay tpch --set pools=3,4", "with + in between, such as 28+20+16"),
    ("replay recorded-gi -o .", "it is a directory"),
    ("replay recorded-gi -o /nonexistent/x.parquet", "there is no directory /nonexistent"),
    ("compare recorded-gi --kernel v4.1", "at least two different kernels"),
    ("compare recorded-gi --kernel v4.1 --kernel bad", "kernel 'bad' is unknown"),
    ("compare recorded-gi --kernel v4.1 --kernel v6.1", "the balancer of exactly this release"),
    ("compare recorded-gi --persist x", "--persist 'x': expected a time"),
    ("compare recorded-gi --set a", "expected NAME=VALUE"),
    ("compare recorded-gi -o /nonexistent/x.html", "there is no directory /nonexistent"),
    ("compare nosuch", "scenario 'nosuch' is unknown"),
    ("scenarios x", "unexpected extra argument"),
    ("replay", "Missing argument"),
    ("replay recorded-gi --seed -1", "'--seed'"),
    ("replay recorded-gi --seed x", "'--seed'"),
]


@pytest.mark.parametrize(("line", "says"), WRONG, ids=[line for line, _ in WRONG])
def test_bad_use_is_refused_in_a_paragraph_before_anything_runs(line, says):
    done = typed(*line.split())
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
    assert "replaying" not in done.err, "nothing was started"
    assert done.out == ""


@pytest.mark.parametrize("text", ["hello\n", '{"a": 1}', ""])
def test_a_file_that_describes_no_machine(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    done = typed("replay", "recorded-gi", "--machine", tmp_path / "m.json")
    assert done.code == 2
    assert "m.json" in done.err or "machine 'm'" in done.err
    assert "replaying" not in done.err


def test_machine_from_a_trace(tmp_path):
    first = typed("replay", "recorded-gi", *SMALL, "-o", tmp_path / "a.parquet", "--json")
    assert first.code == 3, "80 ms are too short for a verdict"
    again = typed(
        "replay", "recorded-gi", "--machine", tmp_path / "a.parquet", "--set", "jobs=10", "--json"
    )
    a, b = (json.loads(r.out) for r in (first, again))
    # the makespan may differ, because costs belong to the name bd-paper-16
    assert len(a["busy_per_node"]) == len(b["busy_per_node"])


def test_a_modern_kernel_replays_and_a_near_one_names_it():
    refused = typed("replay", "recorded-gi", *SMALL, "--kernel", "6.12.94")
    assert refused.code == 2
    assert "Take v6.12.107, the nearest release that it models" in refused.err
    done = typed("replay", "recorded-gi", *SMALL, "--kernel", "6.12.107+deb13-amd64")
    assert done.code == 0
    assert "warning" not in done.err
    assert "v6.12.107" in done.out


def test_a_kernel_that_is_modelled_in_part_comes_with_a_warning(tmp_path):
    done = typed("replay", "recorded-gi", *SMALL, "--kernel", "v4.13", "--json")
    assert done.code == 3
    assert (
        "warning: kernel v4.13: the replay uses the domains and groups of v4.13, and places"
        in done.err
    )
    assert done.err.count("warning") == 1
    assert json.loads(done.out)["warnings"] == [KernelModel.named("v4.13").replay_warning]
    both = typed(
        "compare", "recorded-gi", *SMALL, "--kernel", "v4.1", "--kernel", "v5.4", "--json"
    )  # fmt: skip
    assert "kernel v5.4: the replay" in both.err
    assert len(json.loads(both.out)["warnings"]) == 1
    typed("replay", "recorded-gi", *SMALL, "--kernel", "v4.0", "-o", tmp_path / "t.parquet")
    assert "as v4.1 does" in open_trace(tmp_path / "t.parquet").header.provenance["warning"]
    for exact in ("v4.1", "4.1.3-patched", "v4.1.52", "v4.1+all_fixes:patch"):
        assert KernelModel.named(exact).replay_warning is None
    plain = typed("replay", "recorded-gi", *SMALL, "--json")
    assert json.loads(plain.out)["warnings"] == []
    assert "warning" not in plain.err


def test_the_library_warns_too():
    w = Workload("one")
    w.task("t", Script().compute(1000))
    with pytest.warns(ModelWarning, match=r"kernel v4\.19: the replay uses the domains"):
        replay(w, "bd-paper-16", "v4.19")


def test_a_result_that_was_not_reached_is_none():
    done = typed("replay", "recorded-gi", *SMALL, "--until", "0.02")
    assert "make (s)     not finished in this time" in done.out
    data = json.loads(typed("replay", "recorded-gi", *SMALL, "--until", "0.02", "--json").out)
    assert data["result"] == {"name": "make_s", "value": None}


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "1"])
def test_library__seed_and_end_out_of_range(seed):
    w = Workload("one")
    w.task("t", Script().compute(1000))
    with pytest.raises(UsageError, match="expected a whole number"):
        replay(w, "bd-paper-16", seed=seed)
    if seed != "1":
        with pytest.raises(UsageError, match="until_ns="):
            replay(w, "bd-paper-16", until_ns=-1 if seed == 2**63 else seed)


def test_compare__draws(tmp_path):
    for kind, name in (("costs", "core time wasted"), ("calls", "not designated")):
        file = tmp_path / f"{kind}.json"
        done = typed("compare", "recorded-gi", *SMALL, "-o", file, "--kind", kind)
        assert done.code == 0, done.err
        assert name in file.read_text()


def test_scenarios__every_one_with_its_parameters():
    text = typed("scenarios").out
    rows = {r["name"]: r for r in json.loads(typed("scenarios", "--json").out)["scenarios"]}
    assert list(rows) == list(SCENARIOS)
    for name, found in SCENARIOS.items():
        assert f"{name}\n  {found.doc}\n" in text
        for key, value in found.parameters().items():
            assert f"{key}={as_text(value)}" in text
            assert key in rows[name]["parameters"]
    assert "pools=28+20+16" in text


@pytest.mark.parametrize(
    ("kernel", "compared"),
    [
        ("v4.1", ["v4.1", "v4.1+missing_domains"]),
        ("v4.1+missing_domains", ["v4.1", "v4.1+missing_domains"]),
    ],
)
def test_the_next_command_has_the_same_settings_and_two_kernels(kernel, compared):
    small = ("--machine", "bd-paper-16", "--set", "n=4", "--set", "limit_s=0.1")
    said = typed("replay", "missing-domains", "--kernel", kernel, *small).out.splitlines()[-1]
    words = shlex.split(said.partition("wastedcores ")[2].partition("   (")[0])
    assert words == [
        "compare",
        "missing-domains",
        *small,
        *(w for k in compared for w in ("--kernel", k)),
    ]
    last = typed(*words).out.splitlines()[-1]
    assert f"wastedcores replay missing-domains --kernel v4.1 {shlex.join(small)} -o" in last
