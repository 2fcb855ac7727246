"""A notebook's prose was written for its default parameters; this says what was chosen instead."""

from __future__ import annotations

from typing import Any

from wastedcores.words.rich_text import RichText, sentence


def written_for(**parameters: tuple[Any, Any]) -> RichText | None:
    """Say for which parameters the text of a notebook was written, if others were chosen.

    Parameters
    ----------
    **parameters
        Name of a parameter -> the chosen value, and the value for which the text was written.

    Returns
    -------
    RichText or None
        One sentence for all parameters that differ; None if there are none.
    """
    other = {name: pair for name, pair in parameters.items() if pair[0] != pair[1]}
    if not other:
        return None
    written = " and ".join(f"{name} = {before!r}" for name, (_, before) in other.items())
    chosen = " and ".join(f"{name} = {value!r}" for name, (value, _) in other.items())
    return sentence(
        f"The explanations in this notebook were written for {written}. You chose {chosen}: figures, tables and numbers in them "
        "are of your choice, and causes that the text names may be others here."
    )
