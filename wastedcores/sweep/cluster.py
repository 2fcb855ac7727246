"""Executes runs on a Dask cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from urllib.parse import urlsplit

from wastedcores.errors import UsageError
from wastedcores.sweep.code import digest
from wastedcores.sweep.run import Run, Value, execute

#: how long to wait for a scheduler, in seconds
CONNECT_S = 10


def on_cluster(
    runs: list[Run], address: str
) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """Execute runs on a cluster, whose scheduler gives the runs of a lost worker to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask. Install it with pip install 'wastedcores[dask]'."
        ) from None
    try:
        # without a scheduler, the client would also complain from a thread of its own
        _try_to_connect(address)
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as e:
        raise UsageError(
            f"No Dask scheduler answers at {address} ({type(e).__name__}). Start one with `dask scheduler` and give "
            "the address that it prints."
        ) from None
    try:
        modules = sorted({r.task.partition(":")[0] for r in runs if r.code})
        here = _installed(modules)
        there = {str(v) for v in client.run(_installed, modules, on_error="return").values()}
        if there - {here}:
            raise UsageError(
                f"The workers at {address} must have the same code as this machine, wastedcores {here}; they have "
                f"{', '.join(sorted(there - {here}))}. Install the same version there."
            )
        named = {f"wastedcores-{r.key}-{os.urandom(4).hex()}": r for r in runs}
        futures = [
            client.submit(execute, r.task, r.arguments, key=key, pure=False)
            for key, r in named.items()
        ]
        arriving = as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
        for future, result in arriving:
            run = named[future.key]
            if future.status == "finished":
                yield run, result
            else:
                why = result[1] if isinstance(result, tuple) else result
                yield run, {"error": f"lost on the cluster: {type(why).__name__}: {why}"}
            future.release()
    finally:
        client.close()


def _try_to_connect(address: str) -> None:
    """Raise OSError if nobody listens at ``tcp://host:port`` or ``tls://host:port``; the client checks other addresses."""
    at = urlsplit(address)
    if at.scheme not in ("tcp", "tls") and "://" in address:
        return
    if not at.hostname or not at.port:
        raise ValueError(address)
    socket.create_connection((at.hostname, at.port), timeout=CONNECT_S).close()


def _installed(modules: list[str]) -> str:
    """Return the version and the digests of the tasks' code on the machine where this is called."""
    from wastedcores import __version__ as version

    return " ".join([version, *(digest(module) for module in modules)])
