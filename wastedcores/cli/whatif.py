"""``wastedcores whatif``: how long the recorded work would have taken with a fix, another kernel or another machine."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import Counted, Told, with_groups
from wastedcores.cli._options import (
    AsJson,
    HotplugCommand,
    Offline,
    Online,
    RefillUs,
    TraceInput,
    hotplug_steps,
)
from wastedcores.cli._output import print_json, print_next, wrapped

if TYPE_CHECKING:
    from wastedcores.guest.confirm import Confirmation
    from wastedcores.prediction import Variant, WhatIf

_NOTES = """First, the work is recovered from the trace alone and replayed under the recorded kernel. The predictions for other
kernels mean something only if this replay shows what was recorded; the answer says how far to trust them. core is a scheduler
that never lets a CPU idle while a thread waits, so no scheduler can gain much more than core. Without sessions (--snapshot,
--session), all tasks share the root group."""
_EXIT_CODES = "0 fine, 2 bad use or input, 3 the work cannot be recovered, or the replay has no model of the kernel."


@dataclass(frozen=True)
class Replays:
    """How the work is replayed."""

    refill_us: RefillUs = 0
    seeds: Annotated[
        int, Option(metavar="N", min=1, help="The number of replays of each kernel.")
    ] = 20


@dataclass(frozen=True)
class Confirmed:
    """Whether the prediction is compared with booted kernels."""

    confirm: Annotated[
        bool,
        Option(
            "--confirm",
            help="Also boot the recorded and the predicted kernels with `wastedcores guest`, and run the recovered work on them.",
        ),
    ] = False
    confirm_seeds: Annotated[
        int | None,
        Option(
            metavar="N",
            min=2,
            help="Like --confirm, with this many recordings of each kernel. Default: 3.",
        ),
    ] = None
    confirm_image: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Like --confirm, but boot this kernel image (bzImage) as the predicted kernel; there must be only one --to.",
        ),
    ] = None


@app.command(
    cls=HotplugCommand,
    epilog=epilog(
        "whatif overload-on-wakeup-buggy",
        "whatif group-imbalance-buggy --session R- --session make --to v4.1+all_fixes:patch",
        "whatif trace.txt.xz --machine bd-paper-64 --kernel v4.1 --between start stop --json",
        "whatif trace.parquet --to v6.12.107+NO_NI_RANDOM --confirm",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    ),
)
@with_groups
def whatif(
    ctx: typer.Context,
    trace: TraceInput,
    kernel: Annotated[
        str | None, Option(metavar="NAME", help="The recorded kernel. Default: the trace's own.")
    ] = None,
    machine: Annotated[
        str | None,
        Option(metavar="NAME|FILE|live", help="The recorded machine. Default: the trace's own."),
    ] = None,
    offline: Offline = None,
    online: Online = None,
    counted: Counted = Counted(),
    to: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A kernel to compare with. May be repeated. Default: each fix, all fixes and core.",
        ),
    ] = None,
    to_machine: Annotated[
        str | None, Option(metavar="NAME|FILE|live", help="Another machine for the predictions.")
    ] = None,
    told: Told = Told(),
    pin: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="For the predictions, bind to these CPUs every task that was free to move.",
        ),
    ] = None,
    replays: Replays = Replays(),
    confirmed: Confirmed = Confirmed(),
    as_json: AsJson = False,
) -> None:
    """Predict from a trace what a fix would have gained."""
    from wastedcores.cli._input import kernel_of, open_input, recorded_machine
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.prediction import whatif as run_whatif

    opened = open_input(trace, snapshot=told.snapshot)
    on = recorded_machine(opened, machine, hotplug_steps(ctx))
    found = run_whatif(
        opened,
        machine=on,
        kernel=kernel_of(opened, kernel, machine),
        to=to,
        to_machine=to_machine,
        **vars(counted),
        sessions=told.session or (),
        pin=None if pin is None else parse_cpulist(pin),
        refill_ns=1000 * replays.refill_us,
        seeds=replays.seeds,
        progress=sys.stderr.isatty(),
    )
    truth = _confirmed(found, confirmed)
    if as_json:
        print_json(found.to_dict() | ({"confirmed": truth.to_json()} if truth else {}))
    else:
        _print(found)
        if truth:
            print(f"\n{truth.text}")
        print_next(
            f"wastedcores recover {shlex.quote(str(trace))}",
            "the work as a file, to edit and to replay",
            ctx,
        )


def _confirmed(found: WhatIf, asked: Confirmed) -> Confirmation | None:
    """Boot the kernels and run the work on them, if this was asked for."""
    if not asked.confirm and asked.confirm_image is None and asked.confirm_seeds is None:
        return None
    from wastedcores.guest import Kernel
    from wastedcores.guest.confirm import confirm

    image = None if asked.confirm_image is None else Kernel.of_image(asked.confirm_image)
    return confirm(found, seeds=asked.confirm_seeds or 3, image=image)


def _print(found: WhatIf) -> None:
    from wastedcores.units import number
    from wastedcores.words.rich_text import count

    recorded = f"{found.window_ns / 1e9:.3f} s, " if found.itself.window_ns else ""
    print(
        f"{found.trace}: {found.recorded_kernel} on {found.machine}, {count(found.seeds, 'seed')}"
    )
    print(
        f"  recorded   {recorded}{found.busy_cpus:.1f} busy CPUs, {number(found.wasted_cpus)} wasted"
    )
    wasted = found.itself.wasted_cpus(found.window_ns).median
    print(f"  replayed   {_numbers(found.itself)}, {number(wasted)} wasted")
    print(f"  trust      {found.trust}\n")
    width = max(len(v.kernel) for v in found.variants)
    for v in found.variants:
        gain = f"{100 * v.gain.median:+.1f} % [{100 * v.gain.low:+.1f}, {100 * v.gain.high:+.1f}]"
        print(f"  {v.kernel:<{width}}  {_numbers(v)}  gain {gain}")
    print()
    for reason in found.reasons:
        print(wrapped(f"{reason}.", "  - ", "    "))


def _numbers(v: Variant) -> str:
    window, busy = v.window_ns, v.busy_cpus
    if window is None:
        return f"{busy.median:.1f} busy CPUs [{busy.low:.1f}, {busy.high:.1f}]"
    low, high = window.low / 1e9, window.high / 1e9
    return f"{window.median / 1e9:.3f} s [{low:.3f}, {high:.3f}], {busy.median:.1f} busy CPUs"
