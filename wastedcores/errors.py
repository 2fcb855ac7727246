"""The exceptions of this package.

A message is one paragraph. It says what is wrong and where (file, line, row, CPU), what was expected and found, and what to
do about it. The command line prints the message, without a traceback, and exits with the class's ``exit_code``.
"""

from __future__ import annotations

#: A message that is longer than this quotes a file of unlimited length; the middle of the message is left out.
LONGEST_MESSAGE = 2500


class WastedCoresError(Exception):
    """Base class of the errors; ``exit_code`` is the exit status of the command line."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE - 705]} ... {message[-700:]}"
        super().__init__(message)


class ModelWarning(UserWarning):
    """The answer comes from a model that differs from what was asked for; the message says how."""


class UsageError(WastedCoresError):
    """An option or argument has an impossible value."""


class TraceFormatError(WastedCoresError):
    """A trace file is not in the format that it claims or seems to have."""


class TraceContentError(WastedCoresError):
    """A readable trace contradicts itself (times, CPU numbers, kinds of events)."""


class MissingEventsError(WastedCoresError):
    """A question needs kinds of events that the trace does not have."""


class TopologyError(WastedCoresError):
    """A machine description is impossible, or does not fit the trace."""


class UnknownKernelError(WastedCoresError):
    """The name of a kernel, a fix or a module is unknown."""


class UnmodelledKernelError(UnknownKernelError):
    """The kernel is newer than the newest one that is modelled."""


class WorkloadError(WastedCoresError):
    """A workload cannot run; the message names the task and the simulated time."""


class NotRecoverableError(WastedCoresError):
    """The work of a trace cannot be recovered, so nothing is predicted; the message says what is missing."""

    exit_code = 3


class CollectorError(WastedCoresError):
    """A capture on a live machine failed or is impossible here."""


class DatasetError(WastedCoresError):
    """A data set is not in the registry, or does not match its checksum."""


class ReportError(WastedCoresError):
    """A report cannot be made: unknown parameter, failing notebook, no space left."""
