"""Workloads: tasks as small programs, and the recorded ones."""

from wastedcores.workload.builder import Measure, Script, Workload
from wastedcores.workload.program import GUEST, Costs, Program, TaskSpec

__all__ = ["GUEST", "Costs", "Measure", "Program", "Script", "TaskSpec", "Workload"]
