"""The exceptions of this package.

A message is one paragraph: what, where (file, line, row, cpu), expected against got, what to do. The command line
prints it and exits with the class's ``exit_code``; it never prints a traceback for one of these.
"""

from __future__ import annotations


class WastedCoresError(Exception):
    """Base class; ``exit_code`` is what the command line returns."""

    exit_code = 2


class ModelWarning(UserWarning):
    """The answer is that of a model which differs from what was asked for; the message says in what."""


class UsageError(WastedCoresError):
    """An option or argument that cannot be meant as given."""


class TraceFormatError(WastedCoresError):
    """A trace file that cannot be read as what it claims or seems to be."""


class TraceContentError(WastedCoresError):
    """A readable trace whose content contradicts itself (time, CPU numbers, kinds)."""


class MissingEventsError(WastedCoresError):
    """A question that needs event kinds the trace does not have."""


class TopologyError(WastedCoresError):
    """A machine description that no machine can have, or that does not fit the trace."""


class UnknownKernelError(WastedCoresError):
    """A kernel model or fix name that is not in the table."""


class WorkloadError(WastedCoresError):
    """A workload that cannot run; names the task and the simulated time."""


class CollectorError(WastedCoresError):
    """Capture on a live machine failed or is not possible here."""


class DatasetError(WastedCoresError):
    """A data set that is not in the registry or does not match its checksum."""


class ReportError(WastedCoresError):
    """A report that cannot be made: unknown parameter, failing notebook, no room."""
