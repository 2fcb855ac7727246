"""Finds the model of a kernel that ran by what ``uname -r`` prints, and says what this name does not tell."""

from __future__ import annotations

import re
from typing import NamedTuple

from wastedcores.errors import UnmodelledKernelError
from wastedcores.kernels._parsing import dotted, is_release
from wastedcores.kernels.generations import NEWEST, OLDEST
from wastedcores.kernels.model import KernelModel

#: kernels whose vendors backport scheduler changes of later releases and keep the version: Enterprise Linux and its rebuilds
#: (``.el9_5``, ``.el8uek``), SUSE (``-150600.23.25-default``, ``-lp150.12-default``, ``-122.37-default``), openEuler, Anolis,
#: OpenCloudOS and TencentOS
#: (ELRepo's builds of mainline are not among them)
_BACKPORTS = re.compile(
    r"\.el\d+\w*(?!.*elrepo)(?<!elrepo)|-\d{6}\.[\d.]*-\w+|-lp\d[\d.]*-\w+|-\d+\.[\d.]+-default|\.oe\d\w*|\.(?:an|al|alnx)[78]\b|[.-](?:tl|oc|tlinux)\d\w*",
    re.ASCII,
)
#: kernels with another scheduler, or with a changed one
_PATCHED = re.compile(
    r"[-.](?:android\w*|cachyos|zen\d*|xanmod\d*|liquorix|tkg|bore|bmq|pds|muqss|prjc|ck\d*)(?![a-z])",
    re.ASCII,
)
#: the names of kernels with the real-time patches, as mainline and as distributors write them
_REAL_TIME = re.compile(r"[-.+]rt\d*(?![a-z])|[-.]realtime|PREEMPT_RT", re.ASCII)
#: names of releases that are not for x86-64
_ELSEWHERE = re.compile(
    r"[-+._](?:aarch64|arm64|armv\d\w*|armmp\w*|rpi|raspi|v[678]l?(?=\+|$)|v8-16k|ppc64\w*|powerpc\w*|s390x|riscv64|loong\w+|mips\w*)(?![a-z])",
    re.ASCII,
)
#: Debian 12 and Ubuntu number their builds of a series: 6.1.0-56-amd64 and 6.8.0-45-generic are late stable releases
_UNTOLD = re.compile(r"\d+\.\d+\.0-\d+-", re.ASCII)
_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.|$)", re.ASCII)
#: releases between these two were neither read nor compared with a running kernel
_UNREAD = ((6, 19), (7, 2))


class Balancer(NamedTuple):
    """How well the balancer of a recorded kernel is known."""

    nearest: (
        str  #: the nearest release of its generation whose balancer has been read, ``v6.12.107``
    )
    #: whether the replay may stand for it: the replay models its generation, and no vendor is known to have changed its balancer
    replayed: bool
    reason: str = ""  #: why the replay may not stand for the kernel, as a sentence without a full stop; empty if it may
    #: the nearest release that the replay models, if its replay may be used with less trust; else None
    stand_in: str | None = None


def recorded_kernel(release: str) -> tuple[KernelModel, str | None]:
    """Find the model of a kernel that ran, by what ``uname -r`` prints or by the name of a model.

    A kernel that is newer than all models gets the newest model, and a kernel that is older than all models gets the oldest. If
    the domains of the model may differ from those of the kernel, the second result is a sentence that says why: the kernel is
    newer or older than all models, it lies between releases whose source was read, its vendor changes the scheduler, or it is
    not for x86-64. Otherwise the second result is None.
    """
    release = spelt(release)
    numbers = _NUMBERS.match(release)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST and is_release(release):
        nearest = KernelModel.named("v" + dotted(OLDEST))
        return nearest, (
            f"kernel {release} is older than {nearest.name}, the oldest kernel whose domains are modelled: these are the domains "
            f"of {nearest.name}, and those of {release} may differ"
        )
    try:
        model = KernelModel.named(release)
    except UnmodelledKernelError:
        nearest = KernelModel.named("v" + dotted(NEWEST))
        return nearest, (
            f"kernel {release} is newer than {nearest.name}, the newest kernel whose domains are modelled: these are the "
            f"domains of {nearest.name}, and those of {release} may differ"
        )
    if not is_release(release):
        return model, None
    if changed := _changed(release):
        return model, (
            f"kernel {release} has {changed}: these are the domains of mainline's {model.name}, and its own may differ"
        )
    if elsewhere := _ELSEWHERE.search(release):
        return model, (
            f"kernel {release} is not for x86-64 ({elsewhere[0].strip('-+._')}): these are the domains of {model.name} on "
            "x86-64, and levels, flags and names may differ"
        )
    if _UNREAD[0] <= model.version[:2] < _UNREAD[1]:
        return model, (
            f"kernel {release} is between v6.18 and v7.2, whose domains are known: spans and groups are the same in both for "
            "most machines, and some flags and intervals may differ"
        )
    return model, None


def recorded_balancer(release: str) -> Balancer:
    """Find out whether the replay may stand for a kernel that ran."""
    release = spelt(release)
    model, _ = recorded_kernel(release)
    return balancer_of(model, release if is_release(release) else "")


def balancer_of(model: KernelModel, release: str = "") -> Balancer:
    """Find out whether the replay may stand for a kernel. ``release`` is empty if the kernel was named as a model."""
    said = f"kernel {release or model.name}"
    if release and (changed := _changed(release)):
        return Balancer(
            model.nearest,
            False,
            f"{said} has {changed}, so its balancer may not be that of {model.name}",
        )
    if model.is_replayed or model.is_design:
        return Balancer(model.nearest, True)
    hidden = ", whose stable release its name does not tell," if _UNTOLD.match(release) else ""
    return Balancer(
        model.nearest,
        False,
        f"{said}{hidden} has a balancer that the replay does not model exactly; the nearest release whose balancer has been read "
        f"is {model.nearest}",
        model.stand_in,
    )


def spelt(release: str) -> str:
    """Return a release as ``uname -r`` prints it, without the text that some recorders append to it.

    KUtrace writes ``uname -r`` and ``uname -v`` in one word, ``5.10.66#8SMPMonSep20...``; other recorders append the architecture
    or the date after a space.
    """
    words = release.strip().removeprefix("Linux ").removeprefix("Linux-").split()
    return words[0].partition("#")[0] if words else ""


def _changed(release: str) -> str:
    """Return what a vendor changed in the scheduler, for a sentence; empty if the name does not say so."""
    if vendor := _BACKPORTS.search(release):
        return f"the scheduler changes that its vendor took over from later releases ({vendor[0].strip('.-')})"
    if patched := _PATCHED.search(release):
        return f"a scheduler that its vendor changes ({patched[0].strip('.-')})"
    if real_time := _REAL_TIME.search(release):
        return f"the patches for real time ({real_time[0].strip('.-+')})"
    return ""
