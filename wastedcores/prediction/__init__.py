"""Predicts what the recorded work would have taken under another kernel, a fix, or another machine."""

from wastedcores.prediction.advice import Advice, Proposal, advise, weigh
from wastedcores.prediction.predict import whatif
from wastedcores.prediction.result import Range, Variant, WhatIf

__all__ = ["Advice", "Proposal", "Range", "Variant", "WhatIf", "advise", "weigh", "whatif"]
