"""Feeds mutated files to the package, one after the other, and keeps what it finds."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from support.fuzzing.mutators import mutate
from support.fuzzing.tables import mutate_table
from support.fuzzing.targets import FILE, PERSIST_NS, Outcome, Target, make_targets
from wastedcores.errors import LONGEST_MESSAGE, WastedCoresError
from wastedcores.trace.readers.text import scan

#: No input may take longer: seconds of processor time.
LIMIT_S = 10
#: Memory that one input may add to what all before it needed.
LIMIT_BYTES = 700 << 20
#: Address space beyond what the process has when it begins.
ROOM_BYTES = 4 << 30
#: Inputs with new outcomes that are kept per format to be mutated further.
KEPT = 150
#: Length of the file that names the current input: longer than any number and format.
NAME_BYTES = 64
CONFIDENT = ("clean", "violations", "chronic")


@dataclass
class State:
    """All that a run needs in order to go on after an interruption."""

    seed: int
    inputs: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    slowest_s: float = 0.0
    flips_unseen: Counter[str] = field(default_factory=Counter)
    failures: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, seed: int) -> State:
        """Return the saved state, or a new one."""
        if not path.exists():
            return cls(seed)
        saved = json.loads(path.read_text())
        state = cls(**{k: saved[k] for k in cls.__dataclass_fields__ if k in saved})
        for name in ("inputs", "read", "refused", "outcomes", "flips_unseen"):
            setattr(state, name, Counter(getattr(state, name)))
        return state

    def save(self, path: Path) -> None:
        """Write the state; a reader never sees half of it."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(vars(self), indent=1) + "\n")
        part.replace(path)


class TooLongError(BaseException):
    """Not an Exception, so that nobody catches it."""


def _alarm(signum: int, frame: FrameType | None) -> None:
    raise TooLongError


def write_input(files: dict[str, bytes], path: Path) -> None:
    """Write an input: a file, or a folder of files."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if list(files) == [FILE]:
        path.write_bytes(files[FILE])
        return
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)


def judge(target: Target, path: Path, persist_ns: int) -> tuple[Outcome | None, str, str]:
    """Read an input.

    Returns
    -------
    outcome
        None if the input was refused.
    failure
        What is wrong with how it was read; empty if nothing is.
    detail
        A place in the package that distinguishes refusals and failures.
    """
    try:
        return target.read(path, persist_ns), "", ""
    except WastedCoresError as e:
        message = str(e)
        if "\n" in message or not message.strip() or len(message) > LONGEST_MESSAGE:
            return None, "message", f"{_place(e)} {message[:200]!r}"
        return None, "", _place(e)
    except TooLongError as e:
        return None, "hang", _place(e)
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # a panic of polars is no Exception
        return None, "traceback", f"{type(e).__name__} {_place(e)}"


def _place(e: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(e.__traceback__) if "/wastedcores/" in f.filename]
    if not frames:
        return "?"
    return f"{frames[-1].filename.rpartition('/wastedcores/')[2]}:{frames[-1].name}:{frames[-1].lineno}"


class Worker:
    """One run in one process.

    Parameters
    ----------
    folder
        For the state and what was found.
    seed
        Of all random choices.
    names
        Formats; empty: all.
    evenly
        All formats get the same number of inputs, so that two runs are equal; otherwise the same time, so that most inputs
        are of those that are read fast.
    """

    def __init__(
        self, folder: Path, seed: int, names: tuple[str, ...] = (), *, evenly: bool = False
    ) -> None:
        self.folder, self.evenly = folder, evenly
        self.state = State.load(folder / "state.json", seed)
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.path = self.scratch / "current"
        self.name = -1
        all_targets = make_targets(self.scratch / "valid")
        self.targets = {n: t for n, t in all_targets.items() if not names or n in names}
        self.corpus = {
            n: [(files, i) for i, files in enumerate(t.seeds)] for n, t in self.targets.items()
        }
        self.seen: dict[str, set[str]] = {n: set() for n in self.targets}
        self.peak = 0

    def warm_up(self) -> None:
        """Read all valid files, which loads compiled code, and note their verdicts; then limit the address space."""
        for target in self.targets.values():
            for i, files in enumerate(target.seeds):
                for persist_ns in PERSIST_NS if target.trace else PERSIST_NS[:1]:
                    write_input(files, self.path)
                    scan.WORTHWHILE_BYTES = 0 if persist_ns > 10**8 else 1 << 40
                    outcome, failure, detail = judge(target, self.path, persist_ns)
                    if outcome is None or failure:
                        raise AssertionError(f"valid {target.name} {i}: {failure} {detail}")
                    target.intact[i, persist_ns] = outcome.verdict
                    self.seen[target.name].add(outcome.kind)
        virtual = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        resource.setrlimit(resource.RLIMIT_AS, (virtual + ROOM_BYTES,) * 2)
        self.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def run(self, inputs: int, seconds: float = float("inf")) -> None:
        """Go on until so many inputs were read in all, or for so long."""
        signal.signal(signal.SIGALRM, _alarm)
        # It stays open, since ext4 flushes a file to the disk that is truncated and written again (auto_da_alloc).
        self.name = os.open(self.scratch / "name", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        saved = begun = time.monotonic()
        while self.state.inputs.total() < inputs and time.monotonic() < begun + seconds:
            self.step()
            if time.monotonic() > saved + 2:
                saved = time.monotonic()
                self.state.save(self.folder / "state.json")
        self.state.save(self.folder / "state.json")

    def step(self) -> None:
        """Make and read one input of the format that had the least time so far."""
        state = self.state
        so_far = state.inputs if self.evenly else state.seconds
        name = min(self.targets, key=lambda n: so_far.get(n, 0))
        target = self.targets[name]
        rng = random.Random(f"{state.seed} {name} {state.inputs[name]}")
        files, origin = rng.choice(self.corpus[name])
        other = rng.choice(rng.choice(self.corpus[name])[0].copy().popitem()[1:])
        changed = dict(files)
        victim = rng.choice(sorted(files))
        if len(files) > 1 and rng.random() < 0.02:
            del changed[victim]
            changes = 1
        elif name == "unsealed" and files in target.seeds and rng.random() < 0.5:
            changed[victim], changes = mutate_table(files[victim], rng)
        else:
            changed[victim], changes = mutate(
                files[victim], other, rng, text=target.text or not target.trace
            )
        persist_ns = rng.choice(PERSIST_NS)
        # the compiled scanner of text reads what the patterns read, too, and is used for large files only
        scan.WORTHWHILE_BYTES = rng.choice((0, 0, 0, 1 << 40))
        write_input(changed, self.path)
        os.pwrite(self.name, f"{state.inputs[name]} {name}".ljust(NAME_BYTES).encode(), 0)
        state.inputs[name] += 1
        begun, used = time.monotonic(), time.process_time()
        signal.alarm(60)
        outcome, failure, detail = judge(target, self.path, persist_ns)
        signal.alarm(0)
        took = time.process_time() - used
        state.seconds[name] = state.seconds.get(name, 0.0) + time.monotonic() - begun + 2e-4
        if took > state.slowest_s:
            state.slowest_s = round(took, 3)
            (self.folder / "found").mkdir(exist_ok=True)
            write_input(changed, self.folder / "found" / f"slowest-{name.replace(' ', '-')}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if not failure and took > LIMIT_S:
            failure, detail = "hang", detail or "?"
        if not failure and peak > self.peak + LIMIT_BYTES:
            failure, detail = "memory", detail or "?"
        self.peak = max(self.peak, peak)
        (state.refused if outcome is None else state.read)[name] += 1
        if outcome is not None and outcome.verdict:
            state.outcomes[outcome.verdict] += 1
            # files that are mutated further have another truth
            before = target.intact[origin, persist_ns] if files in target.seeds else ""
            if {outcome.verdict, before} <= set(CONFIDENT) and outcome.verdict != before:
                if outcome.visible:
                    failure, detail = "flip", f"{before} to {outcome.verdict}: {outcome.visible}"
                else:
                    state.flips_unseen[f"{name}: {before} to {outcome.verdict}"] += 1
        if failure:
            self.keep(name, failure, detail, changed, persist_ns, changes)
        kind = outcome.kind if outcome else detail
        if kind not in self.seen[name] and not failure:
            self.seen[name].add(kind)
            if len(self.corpus[name]) < KEPT + len(target.seeds):
                self.corpus[name].append((changed, origin))

    def keep(
        self,
        name: str,
        failure: str,
        detail: str,
        files: dict[str, bytes],
        persist_ns: int,
        changes: int,
    ) -> None:
        """Write down a failure; of each kind the smallest input is kept."""
        key = hashlib.sha256(f"{name} {failure} {detail}".encode()).hexdigest()[:12]
        size = sum(map(len, files.values())) + (changes << 20)
        known = self.state.failures.setdefault(
            key,
            {"format": name, "failure": failure, "detail": detail, "times": 0, "size": size + 1},
        )
        known["times"] = int(str(known["times"])) + 1
        if size < int(str(known["size"])):
            known |= {"size": size, "changes": changes, "persist_ns": persist_ns}
            (self.folder / "found").mkdir(exist_ok=True)
            write_input(files, self.folder / "found" / f"{key}-{failure}")
        self.state.save(self.folder / "state.json")
