"""Compares a prediction of ``whatif`` with guests that boot the recorded and predicted kernels and run the recovered work."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.guest.boot import Options
from wastedcores.guest.compare import Comparison, measured
from wastedcores.guest.jobs import program_work, renumbered
from wastedcores.guest.kernels import Kernel, find_kernel
from wastedcores.guest.machines import GuestMachine, guest_machine
from wastedcores.guest.places import GuestError, tell
from wastedcores.guest.record import record_all
from wastedcores.kernels import KernelModel
from wastedcores.prediction import Range, Variant, WhatIf
from wastedcores.prediction.one_replay import PATIENCE, Task
from wastedcores.recovery.build import END_MARK
from wastedcores.shown import Shown
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace
from wastedcores.workload import ops
from wastedcores.workload.program import Program, TaskSpec

#: if the work has no marks of its window, an additional task writes these marks
_BEGIN, _END = "window begins", "window ends"


@dataclass(frozen=True, repr=False)
class Confirmation(Shown):
    """Predictions for some work beside what booted kernels did with this work."""

    found: WhatIf  #: The prediction.
    #: The recorded kernel, and after it each predicted kernel that could be booted.
    kernels: tuple[Comparison, ...]
    #: Why the other kernels could not be booted.
    notes: tuple[str, ...]

    def _facts(self) -> dict[str, str]:
        rows = self.gains()
        said = {"trace": self.found.trace, "kernels booted": str(len(self.kernels))}
        return said | {
            "predicted gains confirmed": f"{sum(r['confirmed'] for r in rows)} of {len(rows)}"
        }

    def gains(self) -> list[dict[str, Any]]:
        """Return a row for each predicted kernel that was booted.

        ``predicted`` is the median and the range of the predicted gain, and ``booted`` the mean gain of the guests. ``noise`` is
        the mean absolute gain between two recordings of the recorded kernel. ``confirmed`` tells whether the booted gain lies in
        the predicted range after this range was widened by the noise.
        """
        base, *others = self.kernels
        noise = statistics.fmean(abs(self._gain(a, b)) for a, b in combinations(base.recorded, 2))
        predicted = {v.kernel: v.gain for v in self.found.variants}
        rows = []
        for other in others:
            gain = statistics.fmean(map(self._gain, other.recorded, base.recorded))
            told: Range = predicted[other.model]
            within = told.low - noise <= gain <= told.high + noise
            row = {
                "kernel": other.model,
                "predicted": told.to_dict(),
                "booted": gain,
                "noise": noise,
            }
            rows.append(row | {"confirmed": within})
        return rows

    def _gain(self, run: dict[str, float], base: dict[str, float]) -> float:
        if self.found.itself.window_ns is not None:
            return 1 - run["window_s"] / base["window_s"]
        return run["busy_cpus"] / base["busy_cpus"] - 1

    def to_json(self) -> dict[str, Any]:
        """Return the part of ``wastedcores whatif --confirm --json`` that is about the guests."""
        return {
            "schema": "wastedcores.confirmation/1",
            "gains": self.gains(),
            "kernels": [c.to_json() for c in self.kernels],
            "notes": list(self.notes),
        }

    @property
    def text(self) -> str:
        """The confirmation as tables for people."""
        tables = [
            c.text.replace("replayed", "predicted").replace("the replay", "the prediction")
            for c in self.kernels
        ]
        lines = ["gain         predicted                      booted     noise"]
        for row in self.gains():
            median, low, high = (100 * row["predicted"][k] for k in ("median", "low", "high"))
            told = f"{median:+.1f} % [{low:+.1f}, {high:+.1f}]"
            said = "confirmed" if row["confirmed"] else "not confirmed"
            lines += [
                f"  {row['kernel']}",
                f"             {told:<26} {100 * row['booted']:+8.1f} %   {100 * row['noise']:5.1f} %   {said}",
            ]
        return "\n\n".join([*tables, "\n".join([*lines, *(f"  note: {n}" for n in self.notes)])])


def confirm(
    found: WhatIf, *, seeds: int = 3, image: Kernel | None = None, options: Options | None = None
) -> Confirmation:
    """Boot the recorded and the predicted kernels, run the recovered work on each of them with several seeds, and compare."""
    if seeds < 2:
        raise UsageError(
            f"{seeds} seeds; expected 2 or more: one recording does not show how far recordings differ."
        )
    if image is not None and len(found.variants) != 1:
        raise UsageError(
            f"an image was given for {len(found.variants)} predicted kernels; name the one that it is, such as --to "
            "v6.12.107+overload_on_wakeup."
        )
    here, other = found.work
    options, notes = options or Options(), []
    plan: list[tuple[Variant, Task, Kernel, Options]] = [
        (found.itself, here, *_booted(found.itself.kernel, options))
    ]
    for variant in found.variants:
        try:
            booted = (image, options) if image is not None else _booted(variant.kernel, options)
            plan.append((variant, other, *booted))
        except GuestError as e:
            notes.append(str(e))
    if len(plan) == 1:
        raise GuestError(f"none of the predicted kernels can be booted. {' '.join(notes)}")
    compared = tuple(_compared(found, *row, seeds) for row in plan)
    return Confirmation(found, compared, tuple(notes))


def _booted(name: str, options: Options) -> tuple[Kernel, Options]:
    """Return the kernel to boot, and the options with which it is the kernel of this name."""
    model = KernelModel.named(name)
    patch = next((f"the change {fix}" for fix in model.fixes), "")
    if model.is_design:
        patch = "a design that no Linux has"
    elif model.fork_wait or model.newidle or model.base_slice_ns:
        patch = "a change that no boot parameter or feature makes"
    if patch:
        raise GuestError(
            f"{name} was not booted: it has {patch}. A kernel that has it can be given: --confirm-image FILE."
        )
    words = ["noautogroup"] if model.noautogroup else []
    features = (*options.features, *(f"NO_{feature}" for feature in model.features_off))
    parameters = " ".join([options.parameters, *words]).strip()
    kernel = find_kernel("debian:" + ".".join(map(str, model.version)))
    return kernel, replace(options, features=features, parameters=parameters)


def _compared(
    found: WhatIf, variant: Variant, task: Task, kernel: Kernel, options: Options, seeds: int
) -> Comparison:
    """Record a task's program with several seeds, and put the replays of the prediction beside it."""
    on = guest_machine(task.machine)
    program, texts = with_window(task)
    program = renumbered(program, on)
    length = task.lead_ns + task.end_ns
    limit = PATIENCE * length if task.finite else length
    numbers = range(1, seeds + 1)
    tell(f"the recovered work under {variant.kernel}:")
    works = [program_work(found.trace, program, seed, limit) for seed in numbers]
    traces = record_all(works, kernel, on, options)
    runs = tuple(measured(_counted(trace, task, on, texts)) for trace in traces)
    predicted = [{"busy_cpus": busy} for busy in variant.busy]
    for run, window, wasted in zip(
        predicted, variant.windows_ns or (), variant.wasted_ns, strict=False
    ):
        run |= {"window_s": window / 1e9, "wasted_cpus": wasted / window}
    release = traces[0].header.kernel_release or kernel.name
    return Comparison(
        found.trace, on.machine.name, release, variant.kernel, tuple(numbers), runs, tuple(predicted), works[0].notes
    )  # fmt: skip


def with_window(task: Task) -> tuple[Program, tuple[str, str]]:
    """Return a program whose tasks mark its window, and the texts of the two marks; the last mark with a text counts."""
    if task.marks is not None:
        return task.program, task.marks
    program = task.program
    texts = (_BEGIN, END_MARK if task.finite else _END)
    begin = len(program.texts)
    until, length = task.lead_ns + task.start_ns, task.end_ns - task.start_ns
    rows = [(ops.OP_SLEEP, until, until, 0, 0), (ops.OP_MARK, begin, 0, 0, 0)]
    if not task.finite:
        rows += [(ops.OP_SLEEP, length, length, 0, 0), (ops.OP_MARK, begin + 1, 0, 0, 0)]
    clock = TaskSpec("window", (*rows, (ops.OP_EXIT, 0, 0, 0, 0)), daemon=True)
    return replace(
        program, tasks=(*program.tasks, clock), texts=(*program.texts, _BEGIN, _END)
    ), texts


def _writers(program: Program, text: str) -> int:
    """Return how many tasks write the mark ``text``; a template counts as one task, because recovered work forks it once."""
    mark = (ops.OP_MARK, program.texts.index(text)) if text in program.texts else None
    specs = (*program.tasks, *program.templates)
    return sum(any(row[:2] == mark for row in spec.rows) for spec in specs)


def _counted(trace: Trace, task: Task, on: GuestMachine, texts: Sequence[str]) -> Trace:
    """Return a recording with the window and the CPUs for which the prediction was made in its header."""
    told = trace.only("mark").select("ts_ns", pl.col("text").cast(pl.String)).collect()
    at = dict(zip(told["text"], told["ts_ns"], strict=True))
    # the window ends when all tasks that write END_MARK have ended; each of them writes it once
    ended, ends = told["text"].to_list().count(END_MARK), _writers(task.program, END_MARK)
    missing = [text for text in texts if text not in at or (text == END_MARK and ended < ends)]
    if missing:
        raise GuestError(
            f"the recovered work did not come to the mark {missing[0]!r} in the guest, within {PATIENCE} times the recorded time."
        )
    cpus = (
        None
        if task.cpus is None
        else [new for new, old in enumerate(on.numbers) if old in task.cpus]
    )
    window = Window(start_ns=at[texts[0]], end_ns=at[texts[1]], names=None)
    return trace.with_header(window=window, counted_cpus=cpus)
