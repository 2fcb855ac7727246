"""Makes a picture of a page with Chromium, where that is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from wastedcores.errors import WastedCoresError

#: the names of the program in different distributions
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: headless, and without requests to the browser's vendor
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def browser() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def screenshot(page: Path, picture: Path, width: int, height: int) -> None:
    """Write a PNG picture of a local page."""
    program = browser()
    if program is None:
        raise WastedCoresError(
            f"{picture}: a .png needs Chromium, which is not installed. On Debian and Ubuntu: sudo apt-get install "
            "chromium. Or write .html."
        )
    with tempfile.TemporaryDirectory() as profile:
        shot = Path(profile) / "shot.png"
        command = [program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += ["--virtual-time-budget=10000", f"--screenshot={shot}", page.absolute().as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired as e:
            raise WastedCoresError(
                f"{picture}: {program} did not finish within 120 s; write .html instead."
            ) from e
        if not shot.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise WastedCoresError(
                f"{picture}: {program} made no picture ({last}); write .html instead."
            )
        shutil.copyfile(shot, picture)
