"""``wastedcores guest``: boot any kernel on any machine, with virtual CPUs in lockstep, and record its schedule."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import with_groups
from wastedcores.cli._guest_options import (
    Append,
    Buffer,
    Console,
    Features,
    KernelOptions,
    MachineGiven,
    ScenarioOptions,
    Scx,
    Sysctls,
    Timeout,
    boot_options,
    find_asked,
    machine_of,
)
from wastedcores.cli._options import AsJson, ParquetOutput, Settings, Until, settings, until_ns
from wastedcores.cli._output import check_writable, print_json, print_next, print_recording

KERNELS_SCHEMA = "wastedcores.guest_kernels/1"
_NOTES = """This needs neither root nor KVM, and no network once the kernel is on this machine. docs/guest.md says what
lockstep means, what is exact and what is not modelled, and how long things take."""

guest_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    guest_app,
    name="guest",
    help="Boot any kernel on any machine and record its schedule.",
    epilog=epilog(
        "guest build",
        "guest record group-imbalance --kernel debian:6.12.107 --set jobs=500 -o gi.parquet",
        "guest compare recorded-db --kernel debian:6.12.107 --machine bd-paper-16 --set iterations=50",
        notes=_NOTES,
    ),
)


@guest_app.command(
    epilog=epilog(
        "guest doctor", "guest doctor --json", exit_codes="0 the guest can be used, 2 it cannot."
    )
)
def doctor(as_json: AsJson = False) -> None:
    """Say what works here, and what is missing.

    It names the emulator, what its build needs, the kernels that are on this machine, and the free space.
    """
    from wastedcores.guest.debian import mirrors
    from wastedcores.guest.emulator import NEEDED, find_emulator, missing_of, runner
    from wastedcores.guest.kernels import NEEDED as FOR_SOURCE
    from wastedcores.guest.kernels import fetched_kernels
    from wastedcores.guest.places import GuestError, guest_cache
    from wastedcores.guest.saved import saved_guests

    folder = guest_cache()
    rows = {"cache": f"{folder}, {shutil.disk_usage(folder).free >> 20} MB free"}
    ready = True
    for name, of in (
        ("emulator", lambda: f"QEMU {find_emulator().version}"),
        ("runner", lambda: str(runner())),
    ):
        try:
            rows[name] = of()
        except GuestError as e:
            rows[name], ready = str(e), False
    for name, needed in (("build", NEEDED), ("kernel source", FOR_SOURCE)):
        missing = missing_of(needed)
        rows[name] = (
            f"needs {', '.join(missing)}: apt install {' '.join(missing.values())}"
            if missing
            else "everything is there"
        )
    rows["Debian's packages"] = (
        "known to this machine's apt"
        if "main" in mirrors()
        else "unknown here: --bzimage and --source only"
    )
    rows["kernels here"] = (
        ", ".join(k.name for k in fetched_kernels())
        or "none yet; `guest record` fetches what it needs"
    )
    sizes = [file.stat().st_size >> 20 for file in saved_guests()]
    rows["booted guests"] = (
        f"{len(sizes)} saved, {sum(sizes)} MB; the next recordings go on from them"
        if sizes
        else "none saved yet; the first recording of a kernel on a machine saves one"
    )
    if as_json:
        print_json({"schema": "wastedcores.guest_doctor/1", "ready": ready, "rows": rows})
    else:
        for name, said in rows.items():
            print(f"{name:<19}{said}")
    raise typer.Exit(0 if ready else 2)


@guest_app.command(
    epilog=epilog("guest build", "guest build --jobs 1", "guest build --source qemu-7.2")
)
def build(
    source: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="A folder with the source of QEMU 7.2. Default: fetch the source from Debian 12.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Number of compilers at a time. Default: one per CPU."),
    ] = None,
) -> None:
    """Build the emulator once, in about 6 CPU minutes, without root."""
    from wastedcores.guest import build_emulator

    made = build_emulator(source, jobs)
    print(f"{made.program}: QEMU {made.version}, lockstep patch {made.patch_sha256[:12]}")
    print_next(
        "wastedcores guest record group-imbalance --set jobs=500 -o gi.parquet", "record in a guest"
    )


@guest_app.command(
    epilog=epilog("guest kernels", "guest kernels --fetch debian:7.2", "guest kernels --json")
)
def kernels(
    fetch: Annotated[
        str | None,
        Option(metavar="NAME", help="Fetch this kernel, such as debian:6.12, and keep it."),
    ] = None,
    everything: Annotated[
        bool,
        Option(
            "--all",
            help="List every release. Default: the newest release of each series, and the releases that the replay models.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the kernels that Debian's packages have now, or fetch one."""
    from wastedcores.guest.kernels import available_kernels, fetch_kernel, fetched_kernels
    from wastedcores.kernels import recorded_balancer

    if fetch is not None:
        kernel = fetch_kernel(fetch)
        told = {
            "schema": KERNELS_SCHEMA,
            "name": kernel.name,
            "version": kernel.version,
            "sha256": kernel.sha256,
            "path": str(kernel.image),
        }
        print_json(told) if as_json else print(f"{kernel.name} {kernel.version}: {kernel.image}")
        return
    found, here = available_kernels(), {k.name for k in fetched_kernels()}
    series = {
        ".".join(v.split(".")[:2]): r for r, v in found.items()
    }  # a newer release replaces an older one
    rows = [
        {"name": f"debian:{r}", "version": v, "here": f"debian:{r}" in here,
         "replayed": recorded_balancer(v.partition("-")[0]).replayed, "newest": r in series.values()}
        for r, v in found.items()
    ]  # fmt: skip
    shown = [row for row in rows if everything or row["newest"] or row["replayed"] or row["here"]]
    if as_json:
        print_json({"schema": KERNELS_SCHEMA, "kernels": shown})
        return
    for row in shown:
        said = [
            word
            for word, told in (("here", row["here"]), ("the replay has it", row["replayed"]))
            if told
        ]
        print(f"{row['name']:<28}{row['version']:<24}{', '.join(said)}".rstrip())


@guest_app.command(
    epilog=epilog(
        "guest boot", "guest boot --machine bd-paper-64 --kernel debian:7.2 --console console.txt"
    )
)
@with_groups
def boot(
    kernel: KernelOptions = KernelOptions(),
    machine: MachineGiven = None,
    feature: Features = None,
    sysctl: Sysctls = None,
    append: Append = "",
    timeout: Timeout = 1800,
    console: Console = None,
) -> None:
    """Boot a kernel on a machine, and say which domains it has."""
    from wastedcores.guest.boot import Options
    from wastedcores.guest.jobs import Work
    from wastedcores.guest.machines import guest_machine
    from wastedcores.guest.record import record_all

    chosen = find_asked(kernel)
    on = guest_machine(machine_of(machine, None))
    options: Options = boot_options(feature, sysctl, append, 1024, timeout, console)
    work = Work("true", {"JOB.sh": b"sleep 0.1\n"}, is_program=False)
    header = record_all([work], chosen, on, options)[0].header
    print(
        f"{header.kernel_release} on {on.machine.name}, {len(header.cpus_online or [])} of {on.machine.cpus} CPUs online"
    )
    for domain in header.sched_domains or []:
        print(f"  level {domain.level} {domain.name or '?':<8} CPUs {domain.cpus}: {domain.span}")


@guest_app.command(
    epilog=epilog(
        "guest record group-imbalance --kernel debian:6.12.107 --set jobs=500 -o gi.parquet",
        "guest record recorded-db --machine bd-paper-16 --set iterations=50 --feature NO_NI_RANDOM",
        "guest record job.sh --machine two-dies.json --bzimage arch/x86/boot/bzImage",
        "guest record recorded-db --source linux-6.12.107 --patch mine.patch",
        "guest record recorded-db --kernel debian:6.18.15 --set iterations=50 --scx mine.bpf.o",
        "guest record ./a.out --machine uma8 -- --threads 8",
    )
)
@with_groups
def record(
    what: Annotated[
        str,
        Argument(
            metavar="SCENARIO|FILE",
            help="A scenario, a file that `replay` takes, a shell script, or a static program.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        Argument(metavar="-- ARGUMENTS", help="Arguments of the script or program."),
    ] = None,
    kernel: KernelOptions = KernelOptions(),
    machine: MachineGiven = None,
    output: ParquetOutput = Path("guest.parquet"),
    scenario: ScenarioOptions = ScenarioOptions(),
    feature: Features = None,
    sysctl: Sysctls = None,
    scx: Scx = None,
    append: Append = "",
    buffer: Buffer = 2048,
    timeout: Timeout = 3600,
    console: Console = None,
    as_json: AsJson = False,
) -> None:
    """Run a workload in a guest and record its schedule."""
    from wastedcores.errors import UsageError
    from wastedcores.guest.jobs import file_work, is_file_work, scenario_work
    from wastedcores.guest.machines import guest_machine
    from wastedcores.guest.record import record_all
    from wastedcores.trace.parquet import write_parquet
    from wastedcores.units import human_ns

    check_writable(output)
    options = boot_options(feature, sysctl, append, buffer, timeout, console, scx)
    is_file = is_file_work(what)
    on = guest_machine(machine_of(machine, None if is_file else what))
    if is_file:
        for name, value in (("--set", scenario.set_), ("--until", scenario.until)):
            if value not in (None, []):
                raise UsageError(
                    f"{name}: only a scenario has it, and {what} is a script or a program, which ends by itself. Leave it out."
                )
        work = file_work(Path(what), arguments or ())
    elif arguments:
        raise UsageError(
            f"-- {shlex.join(arguments)}: only a script or a program has arguments. {what} may have parameters: "
            "--set NAME=VALUE."
        )
    else:
        given, limit_ns = settings(scenario.set_), until_ns(scenario.until)
        work = scenario_work(what, on, scenario.seed, given, limit_ns)
    trace = record_all([work], find_asked(kernel), on, options)[0]
    write_parquet(trace, output)
    header = trace.header
    if as_json:
        print_recording(output, header)
        return
    length = (header.end_ns or 0) - (header.start_ns or 0)
    print(f"{output}: {header.events:,} events in {human_ns(length)}, {header.lost_total:,} lost")
    if header.lost_total:
        print(
            f"wastedcores: note: --buffer {2 * buffer} keeps more events of each CPU",
            file=sys.stderr,
        )
    print_next(
        f"wastedcores check {shlex.quote(str(output))}", "were cores idle while threads waited?"
    )


@guest_app.command(
    epilog=epilog(
        "guest compare recorded-db --kernel debian:6.12.107 --machine bd-paper-16 --set iterations=50",
        "guest compare group-imbalance --set jobs=300 --seeds 5 --keep recordings --json",
    )
)
@with_groups
def compare(
    scenario: Annotated[
        str, Argument(metavar="SCENARIO", help="A scenario, or a file that `replay` takes.")
    ],
    kernel: KernelOptions = KernelOptions(),
    machine: MachineGiven = None,
    seeds: Annotated[
        int, Option(metavar="N", min=2, help="Record and replay with the seeds 1 to N.")
    ] = 3,
    set_: Settings = None,
    until: Until = None,
    feature: Features = None,
    sysctl: Sysctls = None,
    append: Append = "",
    buffer: Buffer = 2048,
    timeout: Timeout = 7200,
    console: Console = None,
    keep: Annotated[
        Path | None, Option(metavar="DIR", help="Also write the recordings into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record a scenario, replay it, and print both side by side.

    The noise floor of the recordings is printed beside them.
    """
    from wastedcores.guest import compare as run_compare
    from wastedcores.trace.parquet import write_parquet
    from wastedcores.trace.trace import Trace

    options = boot_options(feature, sysctl, append, buffer, timeout, console)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)

    def kept(seed: int, trace: Trace) -> None:
        if keep is not None:
            write_parquet(trace, keep / f"{Path(scenario).stem}-{seed}.parquet")

    found = run_compare(
        scenario, find_asked(kernel), machine_of(machine, scenario), seeds=seeds, given=settings(set_),
        limit_ns=until_ns(until), options=options, kept=kept,
    )  # fmt: skip
    print_json(found.to_json()) if as_json else print(found.text)
