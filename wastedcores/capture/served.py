"""How the metrics reach Prometheus: as a page that is prepared between requests, or as a file for node_exporter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    make_wsgi_app,
    start_http_server,
    write_to_textfile,
)

from wastedcores.errors import UsageError

#: the page and the file are made again at most this often
EVERY_S = 5.0
#: a page that is older is not given away: the collector may have stopped telling anything
_STALE_S = 10.0
#: pages that nobody asked for in this time are not prepared, nor are more than so many
_FORGET_S, _MOST = 120.0, 8
#: what chooses the format of the page and its compression
_CHOICE = ("HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")

_Choice = tuple[str, ...]


class _Made(NamedTuple):
    status: str
    headers: list[tuple[str, str]]
    body: bytes
    when: float


class Page:
    """The page of a registry, as a WSGI application. A page with 1,000 groups takes 40 ms to make, so no request waits for it."""

    def __init__(
        self, registry: CollectorRegistry, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._now = make_wsgi_app(registry), now
        self._lock = threading.Lock()
        self._made: dict[_Choice, _Made] = {}
        self._asked: dict[_Choice, float] = {}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request with the page that was prepared last."""
        plain = environ["REQUEST_METHOD"] == "GET" and not environ.get("QUERY_STRING")
        if not plain or environ["PATH_INFO"] != "/metrics":
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        choice = tuple(environ.get(name, "") for name in _CHOICE)
        self._asked[choice] = self._now()
        page = self._made.get(choice)
        if page is None or self._now() - page.when > _STALE_S:
            page = self._make(choice, _STALE_S)
        start_response(page.status, page.headers)
        return [page.body]

    def update(self, at_once: bool = False) -> None:
        """Prepare the pages that somebody asks for, if they are old enough or ``at_once``."""
        now = self._now()
        asked = sorted(self._asked.items(), key=lambda item: -item[1])
        for n, (choice, when) in enumerate(asked):
            if n < _MOST and now - when < _FORGET_S:
                self._make(choice, 0.0 if at_once else EVERY_S)
            else:
                self._asked.pop(choice, None)
                self._made.pop(choice, None)

    def _make(self, choice: _Choice, oldest_s: float) -> _Made:
        """Return a page that is younger than this; several threads that want one wait for the same."""
        with self._lock:
            page = self._made.get(choice)
            if page is not None and self._now() - page.when < oldest_s:
                return page
            told: list[Any] = []  # the status and the headers
            request = dict(zip(_CHOICE, choice, strict=True))
            when = self._now()
            body = self._app(
                {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", **request},
                lambda *answer: told.extend(answer),
            )
            self._made[choice] = page = _Made(told[0], told[1], b"".join(body), when)
            return page


def serve(registry: CollectorRegistry, address: str) -> tuple[str, int, Page]:
    """Serve a registry at ``:PORT`` of the loopback or at ``HOST:PORT``; return where, and the page that is to be updated."""
    host, colon, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--serve {address}: expected :PORT or HOST:PORT, such as :9969.")
    try:
        server, _ = start_http_server(int(port), addr=host, registry=registry)
    except OSError as e:
        raise UsageError(
            f"--serve {address}: cannot listen there ({e.strerror}). Choose another port or another address of this machine."
        ) from e
    page = Page(registry)
    server.set_app(page)
    return host, server.server_port, page


class TextFile:
    """A file for node_exporter's textfile collector, written again at most every few seconds; readers never see half of it."""

    def __init__(self, path: Path, registry: CollectorRegistry, every_s: float = EVERY_S) -> None:
        if path.suffix != ".prom":
            raise UsageError(
                f"--textfile {path}: node_exporter reads files whose names end with .prom only."
            )
        self._path, self._registry, self._every_s = path, registry, every_s
        self._written = -every_s
        self.write()

    def write(self) -> None:
        """Write the file if it is old enough."""
        now = time.monotonic()
        if now - self._written < self._every_s:
            return
        self._written = now
        try:
            write_to_textfile(str(self._path), self._registry)
        except OSError as e:
            raise UsageError(
                f"--textfile {self._path}: cannot be written ({e.strerror}). Name a file in node_exporter's folder."
            ) from e
