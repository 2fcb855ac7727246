"""The answers of the verbs about machines: domains, doctor, measure, and those of the guest."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from wastedcores.capture.doctor import Finding
from wastedcores.topology.clocks import Frequency
from wastedcores.topology.lint import Designated

from .parts import Strict, absent, fields_of


class Machine(Strict):
    name: str
    cpus: int
    nodes: int
    node_of_cpu: list[int]
    package_of_cpu: list[int]
    core_of_cpu: list[int]
    llc_of_cpu: list[int]
    l2_of_cpu: list[int]
    distance: list[list[int]]
    boot_online: str
    hotplug: list[tuple[Literal["online", "offline"], int]] = absent()
    isolated: str = absent()
    asymmetric: bool = absent()
    frequency: fields_of(Frequency) = absent()  # type: ignore[valid-type]
    smt_speed: float = absent()
    idle_states: list[tuple[str, int, int]] = absent("name, and the times of IdleState, in ns")
    microarchitecture: str = absent()


class Group(Strict):
    span: list[int]
    mask: list[int] | None = Field(description="null where the kernel does not print it")


class Domain(Strict):
    level: str
    span: list[int]
    groups: list[Group]


class Event(Strict):
    when: str
    domains: dict[str, list[Domain]] = Field(description="CPU -> its domains, the lowest first")


class Apart(Strict):
    from_: list[int] = Field(alias="from")
    to: list[int]
    reason: str
    level: str
    detail: str
    by_third_party: bool


class Lint(Strict):
    when: str
    pin: list[int]
    pairs: list[Apart]
    designated: list[fields_of(Designated)]  # type: ignore[misc]


class Domains(Strict):
    """What ``wastedcores domains --json`` prints: ``lint`` with ``--lint``, else ``events``."""

    schema_: Literal["wastedcores.domains/1"] = Field(alias="schema")
    kernel: str | None
    sched_debug: Literal[True] = absent("the kernel was booted with sched_debug")
    cpus: int
    machine: Machine
    events: list[Event] = absent()
    lint: Lint = absent()
    note: str = absent("why the model is that of another kernel")
    model: str = absent()


class Found(fields_of(Finding)):  # type: ignore[misc]
    state: Literal["ok", "missing", "limited"]
    command: str = Field(description="the command for this distribution; empty if there is none")


class Doctor(Strict):
    """What ``wastedcores doctor --json`` prints."""

    schema_: Literal["wastedcores.doctor/1"] = Field(alias="schema")
    findings: list[Found]


class GuestDoctor(Strict):
    """What ``wastedcores guest doctor --json`` prints."""

    schema_: Literal["wastedcores.guest_doctor/1"] = Field(alias="schema")
    ready: bool
    rows: dict[str, str]


class Kernel(Strict):
    name: str
    version: str
    here: bool
    replayed: bool
    newest: bool


class Kernels(Strict):
    schema_: Literal["wastedcores.guest_kernels/1"] = Field(alias="schema")
    kernels: list[Kernel]


class FetchedKernel(Strict):
    schema_: Literal["wastedcores.guest_kernels/1"] = Field(alias="schema")
    name: str
    version: str
    sha256: str
    path: str


class GuestKernels(RootModel):
    """What ``wastedcores guest kernels --json`` prints, and with ``--fetch`` of the one that it fetched."""

    root: Kernels | FetchedKernel


class Measured(Strict):
    setting: str
    turn: int
    wall_s: float
    cpu_s: float
    exit_code: int


class Middle(Strict):
    """A median of runs, an interval for the true one, and the probability with which such an interval contains it."""

    median: float
    low: float
    high: float
    level: float


class Setting(Strict):
    wall_s: Middle
    cpu_s: Middle
    ratio: Middle
    failed: int


class Environment(Strict):
    program: str | None
    program_sha256: str | None
    parameters: list[str]
    disk: str | None
    distribution: str | None
    kernel: str
    kernel_build: str
    kernel_command_line: str | None
    mitigations: dict[str, str | None]
    cpu: str | None
    cpus_online: str | None
    smt: str | None
    governor: str | None
    memory_bytes: int
    load_before: float
    compiler: str | None
    compiler_flags: str | None
    not_known: list[str]


class Measure(Strict):
    """What ``wastedcores measure --json`` prints: medians with 95 % intervals."""

    schema_: Literal["wastedcores.measure/1"] = Field(alias="schema")
    command: list[str]
    environment: Environment
    runs: list[Measured]
    settings: dict[str, Setting]
