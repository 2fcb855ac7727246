"""Workloads: tasks as small programs, generators of common workloads, and the recorded workloads."""

from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.program import GUEST, Costs, Program, TaskSpec
from wastedcores.workload.script import Script

__all__ = ["GUEST", "Costs", "Measure", "Program", "Script", "TaskSpec", "Workload"]
