"""Predicts how the recorded work would have run under another kernel, with a fix, or on another machine."""

from wastedcores.prediction.advice import Advice, Proposal, advise, weigh
from wastedcores.prediction.predict import whatif
from wastedcores.prediction.result import Range, Variant, WhatIf

__all__ = ["Advice", "Proposal", "Range", "Variant", "WhatIf", "advise", "weigh", "whatif"]
