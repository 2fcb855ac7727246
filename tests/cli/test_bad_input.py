"""Verbs refuse bad input with one paragraph and exit code 2, and write nothing."""

from __future__ import annotations

import pytest
from support.typed import typed

WRONG = [
    ("sweep nosuch -o x.parquet", "scenario 'nosuch' is unknown"),
    ("sweep recorded-gi --kernel bad -o x.parquet", "kernel 'bad' is unknown"),
    ("sweep recorded-gi --kernel v6.1 -o x.parquet", "the balancer of exactly this release"),
    ("sweep recorded-gi --machine bad -o x.parquet", "neither a preset nor"),
    ("sweep recorded-gi --set jobs=1,x -o x.parquet", "jobs=x; expected a whole number"),
    ("sweep recorded-gi --set job=1 -o x.parquet", "no parameter 'job'"),
    ("sweep recorded-gi --set jobs= -o x.parquet", "expected NAME=VALUE[,VALUE...]"),
    ("sweep recorded-gi --set jobs=1,,2 -o x.parquet", "jobs=''; expected"),
    ("sweep recorded-gi --set seed=1 -o x.parquet", "expected NAME=VALUE[,VALUE...]"),
    ("sweep recorded-gi --seeds x -o x.parquet", "--seeds 'x': expected seeds such as 1-20"),
    ("sweep recorded-gi --seeds= -o x.parquet", "--seeds '': expected seeds"),
    ("sweep recorded-gi --seeds 5-1 -o x.parquet", "--seeds '5-1': expected seeds"),
    ("sweep recorded-gi --seeds 1-100000000000 -o x.parquet", "expected seeds"),
    ("sweep recorded-gi --workers 0 -o x.parquet", "'--workers'"),
    ("sweep recorded-gi -o .", "it is a directory"),
    ("sweep recorded-gi -o nowhere/x.parquet", "there is no directory nowhere"),
    ("sweep recorded-gi -o junk.txt", "expected the table of an earlier sweep"),
    ("sweep recorded-gi recorded-gi -o x.parquet", "two runs are equal"),
    ("sweep recorded-gi", "Missing option"),
    ("domains --machine nosuch", "neither a preset nor"),
    ("domains --machine junk.txt", "not a machine description"),
    ("domains --machine .", "expected a JSON or YAML text file"),
    ("domains --machine bulldozer8x8 --kernel v4.1+foo", "unknown fix 'foo'"),
    ("domains --machine bulldozer8x8 --kernel v3.0", "older than v3.19, the oldest"),
    ("domains --machine bulldozer8x8 --kernel v5.5+gi", "since when Linux has its own cure"),
    ("domains --machine bulldozer8x8 --cpu 99", "the machine has CPUs 0-63"),
    ("domains --machine bulldozer8x8 --cpu x", "'x' is not a CPU"),
    ("domains --machine bulldozer8x8 --cpu=", "the machine has CPUs 0-63"),
    ("domains --machine bulldozer8x8 --cpu 0-99999999999", "not an ascending range"),
    ("domains --machine bulldozer8x8 --pin 8-23", "give --lint too"),
    ("domains --machine bulldozer8x8 --lint --pin 99", "the machine has CPUs 0-63"),
    ("domains --machine bulldozer8x8 --offline 99", "cannot take CPU 99 offline"),
    ("domains --machine bulldozer8x8 --online 3", "it is online already"),
    ("domains --machine bulldozer8x8 --offline 3 --offline 3", "it is offline already"),
    ("domains --machine bulldozer8x8 --offline 0-63", "no CPU would be online"),
    ("domains --machine bulldozer8x8 --offline", "requires an argument"),
    ("figure nosuch -o f.html", "no such file, and no data set of that name"),
    ("figure junk.txt -o f.html", "not a trace that this package reads"),
    ("figure", "Missing argument"),
    ("figure live-balancing-off -o f.pdf", "written as .html, .json or .png"),
    ("figure live-balancing-off -o .", "written as .html, .json or .png"),
    ("figure live-balancing-off -o nowhere/f.html", "there is no directory nowhere"),
    ("figure live-balancing-off --kind nosuch -o f.html", "--kind nosuch"),
    ("figure live-balancing-off --kind considered -o f.html", "no 'considered' events"),
    ("figure live-balancing-off --kind load -o f.html", "no 'load' events"),
    ("figure live-balancing-off --kind tasks --against x -o f.json", "for heatmap and waits"),
    ("figure live-balancing-off --kind tasks --cpu 1 -o f.json", "is for considered"),
    ("figure live-balancing-off --from 9 --to 1 -o f.json", "must end after it starts"),
    ("figure live-balancing-off --from nan -o f.json", "--from 'nan': expected a time like"),
    ("figure live-balancing-off --to 1e300 -o f.json", "--to '1e300s': expected a time like"),
    ("figure live-balancing-off --cpus 99 -o f.json", "--cpus: the trace has CPUs 0-1, not 99"),
    ("figure live-balancing-off --cpus x -o f.json", "'x' is not a CPU"),
    ("figure live-balancing-off --persist x -o f.json", "expected a time like 100ms"),
    ("figure live-balancing-off --palette nosuch -o f.json", "there are safe and paper"),
    ("figure live-balancing-off --reduce nosuch -o f.json", "'--reduce'"),
    ("figure live-balancing-off --width -5 -o f.png", "'--width'"),
    *[
        (f"{verb} {option} {value}", f"{option} {value}: expected a number above 0")
        for verb, option in (
            ("capture", "--seconds"),
            ("capture", "--flight"),
            ("capture", "--buffer"),
            ("watch", "--seconds"),
            ("watch", "--keep-mb"),
            ("watch", "--keep-days"),
        )
        for value in ("nan", "inf", "-1", "0")
    ],
    ("watch --before nan", "expected 0 to 600"),
    ("capture -o .", "this is a directory"),
    ("course grade . --lab 4 -o grades.html", "name the table .csv"),
    ("course grade . --lab 4 -o grades.rows", "name the table .csv"),
    ("import junk.txt -o .", "it is a directory"),
    ("fleet . --page nowhere/x.html", "wastedcores: nowhere/x.html: cannot write there"),
    ("import junk.txt -o nowhere/x.parquet", "there is no directory nowhere"),
    ("export nosuch", "no such file, and no data set of that name"),
    ("export junk.txt", "not a trace that this package reads"),
    ("export live-balancing-off -o nowhere/x", "there is no directory nowhere"),
    ("export live-balancing-off -o .", "it is a directory"),
    ("export live-balancing-off --persist -3", "expected a time like 100ms"),
    ("import junk.txt -o -", "it is no file; expected the name of a file"),
    ("compare live-balancing-off live-balancing-on --junit x.xml", "are for --gate"),
    ("compare live-balancing-off live-balancing-on --until 0", "--until: this changes nothing"),
    ("compare live-balancing-off live-balancing-on --seed 1", "--seed: this changes nothing"),
    ("domains --machine uma8 --lint --cpu 3", "--cpu: this changes nothing"),
    ("explain live-balancing-off --session make", "--session: this changes nothing"),
    ("replay idle-pinned --decisions", "--decisions: this changes nothing"),
    ("reproduce --calibrate --json --seeds 3", "--json, --seeds: this changes nothing"),
    ("reproduce proofs -o x", "--output: this changes nothing"),
    ("watch -o x --keep-mb 5", "--keep-mb: this changes nothing"),
    ("compare live-balancing-off live-balancing-on --gate r.toml -o x.html", "no --gate judges"),
    ("compare live-balancing-off", "name a second one after it"),
    ("compare live-balancing-off live-balancing-on --shift nan", "'--shift'"),
    ("compare live-balancing-off live-balancing-on --shift 1e300", "'--shift'"),
    ("check live-balancing-off --limit 99999999999999999999", "below a billion, or all"),
    ("check live-balancing-off --between 9 1.5", "ends at 1.5 s, not after its start at 9 s"),
    ("whatif overload-on-wakeup-buggy --pin 60-64", "pin 60-64: the machine has CPUs 0-63"),
    ("whatif overload-on-wakeup-buggy --refill-us 99999999999999999999", "'--refill-us'"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "junk.txt").write_text("not a trace\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("line", "says"), WRONG, ids=[line for line, _ in WRONG])
def test_refused_in_a_paragraph(line, says, here):
    done = typed(*line.split())
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert [p.name for p in here.iterdir()] == ["junk.txt"], "nothing is left behind"
