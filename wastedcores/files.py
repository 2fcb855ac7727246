"""Where collectors, notebooks and data sets lie: in a wheel or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

from wastedcores.errors import WastedCoresError

_PACKAGE = Path(__file__).resolve().parent


def find(*parts: str) -> Path:
    """Path of a bundled file or folder, e.g. ``find("notebooks", "01_is_my_machine_wasting.ipynb")``.

    The checkout's own copy wins: an editable install may leave a stale bundle behind.

    Raises
    ------
    WastedCoresError
        If neither the checkout nor the installed package has it.
    """
    for base in (_PACKAGE.parent, _PACKAGE / "_bundled"):
        if base.name != "_bundled" and not (base / "pyproject.toml").exists():
            continue
        path = base.joinpath(*parts)
        if path.exists():
            return path
    raise WastedCoresError(
        f"{'/'.join(parts)}: not found in the checkout nor in the installed package {_PACKAGE}. "
        "The installation is incomplete; reinstall wastedcores."
    )


def collectors() -> Path:
    """Folder of the BCC collectors."""
    return find("collectors")


def notebooks() -> Path:
    """Folder of the notebooks."""
    return find("notebooks")


def datasets() -> Path:
    """Folder of the bundled data sets."""
    return find("datasets")
