"""A long trial of the online checker on this machine: mixed loads, provoked violations, and a judgement of every alarm."""

from __future__ import annotations

from wastedcores.capture.soak.soak import SOAK_SCHEMA, SoakOptions, markdown, soak

__all__ = ["SOAK_SCHEMA", "SoakOptions", "markdown", "soak"]
