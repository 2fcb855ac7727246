"""A page in headless Chromium, driven by playwright with the browser that the distribution installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, sync_playwright

from wastedcores.reports.html import FLAGS, browser


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[tuple[Page, list[str], list[str]]]:
    """Yield an empty page of this size, the errors that it reports, and the addresses that it asks for."""
    errors: list[str] = []
    requests: list[str] = []
    with sync_playwright() as play:
        program = play.chromium.launch(executable_path=browser(), args=list(FLAGS))
        page = program.new_page(viewport={"width": width, "height": height})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and errors.append(said.text))
        page.on("request", lambda request: requests.append(request.url))
        page.set_default_timeout(60_000)
        yield page, errors, requests
        program.close()


def drag(page: Page, box: list[float], start: float, end: float) -> None:
    """Drag over a box (left, top, width, height) from one share of its width to another, at half its height."""
    left, top, width, height = box
    page.mouse.move(left + start * width, top + height / 2)
    page.mouse.down()
    page.mouse.move(left + end * width, top + height / 2, steps=2)
    page.mouse.up()
