"""The page that Prometheus reads is made between requests, never too old and never in vain, and a textfile is whole."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.registry import Collector

from wastedcores.capture.metrics import Page, TextFile, serve
from wastedcores.errors import UsageError

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}


class Made(Collector):
    """A metric that counts how often it is asked for."""

    def __init__(self):
        self.times = 0

    def describe(self):
        return [CounterMetricFamily("made", "How often.", labels=[])]

    def collect(self):
        self.times += 1
        (family,) = self.describe()
        family.add_metric([], self.times)
        yield family


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def made():
    return Made()


@pytest.fixture
def registry(made):
    found = CollectorRegistry()
    found.register(made)
    return found


def read(address: str, **headers: str) -> tuple[bytes, dict]:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        return answer.read(), dict(answer.headers)


def ask(page: Page, accept: str = "", **more: str) -> bytes:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "HTTP_ACCEPT": accept} | more
    return b"".join(page(environ, lambda status, headers: None))


def test_many_scrapes_read_one_page_in_the_format_that_they_ask_for(registry, made):
    host, port, page = serve(registry, ":0")
    address = f"http://{host}:{port}/metrics"
    scrapers = [threading.Thread(target=read, args=(address,)) for _ in range(20)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    assert made.times == 1
    body, headers = read(address, **OPENMETRICS)
    assert headers["Content-Encoding"] == "gzip"
    (family,) = strict(gzip.decompress(body).decode())
    assert family.samples[0].value == made.times == 2
    page.update()
    assert made.times == 2  # both pages are young
    page.update(at_once=True)
    assert made.times == 4
    assert gzip.decompress(read(address, **OPENMETRICS)[0]) != gzip.decompress(body)
    assert made.times == 4


def test_a_page_is_prepared_while_somebody_asks_for_it_and_never_too_old(registry, made):
    clock = Clock()
    page = Page(registry, clock)
    page.update()
    assert made.times == 0  # nobody has asked
    ask(page)
    for _ in range(60):
        clock.now += 1
        page.update()
    assert made.times == 1 + 60 // 5
    assert b"made_total 13.0" in ask(page)
    clock.now += 11  # nothing has come from the collector, so an old page would be a wrong one
    assert b"made_total 14.0" in ask(page)
    for _ in range(200):
        clock.now += 1
        page.update()
    assert made.times == 14 + 119 // 5  # two minutes after the last scrape nobody wants it


def test_the_number_of_pages_that_are_kept_is_bounded(registry, made):
    clock = Clock()
    page = Page(registry, clock)
    for n in range(50):
        clock.now += 0.001
        ask(page, accept=f"text/{n}")
    page.update(at_once=True)
    assert made.times == 50 + 8
    ask(page, accept="text/49")
    assert made.times == 58
    ask(page, accept="text/0")
    assert made.times == 59


def test_a_request_for_some_metrics_and_one_that_is_no_read_are_answered_too(registry):
    page = Page(registry)
    assert b"made_total" not in ask(page, QUERY_STRING="name[]=other")
    assert b"made_total 1.0" in ask(page, QUERY_STRING="name[]=made_total")
    assert b"405" in ask(page, REQUEST_METHOD="POST")


def test_a_textfile_is_whole_and_its_name_is_one_that_node_exporter_reads(tmp_path, registry):
    file = TextFile(tmp_path / "w.prom", registry, every_s=0.05)
    first = (tmp_path / "w.prom").stat().st_ino
    file.write()
    assert (tmp_path / "w.prom").stat().st_ino == first  # it is not old enough
    time.sleep(0.06)
    file.write()
    assert (tmp_path / "w.prom").stat().st_ino != first  # it was replaced, not written over
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("w.prom.")]
    with pytest.raises(UsageError, match=r"end with \.prom"):
        TextFile(tmp_path / "w.txt", registry)
    with pytest.raises(UsageError, match="cannot be written"):
        TextFile(tmp_path / "absent" / "w.prom", registry)


def test_node_exporter_may_read_a_textfile_whatever_the_umask(tmp_path, registry):
    before = os.umask(0o077)  # as the service has it
    try:
        TextFile(tmp_path / "w.prom", registry)
    finally:
        os.umask(before)
    assert (tmp_path / "w.prom").stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["w.prom"]


@pytest.mark.parametrize("address", ["9100", ":x", ":70000", "192.0.2.1:9100"])
def test_an_address_that_cannot_be_served_is_refused(address):
    with pytest.raises(UsageError, match="--serve"):
        serve(CollectorRegistry(), address)


def test_a_checker_that_finds_nothing_loads_neither_polars_nor_numba():
    """They take more memory than everything else of the service."""
    code = (
        "import sys, wastedcores.capture.service, wastedcores.capture.live; "
        "sys.exit({'polars', 'numba'} & set(sys.modules) != set())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
