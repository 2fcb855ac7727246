"""Findings in sentences and small tables, which show themselves in a notebook. Nothing here draws a figure.

A module is imported when one of its names is first used.
"""

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "findings": "verdict claim claim_pair facts waiting_sentence cost headline",
        "steps": "next_steps next_command next_after_explaining next_after_path",
        "episode_tables": "episodes worst waited_most avoidable",
        "cause": "why",
        "critical_path": "path_cost path_threads",
        "whatif": "gains prediction prediction_table trust",
        "balancing": "decision decision_place group_table help_sentence",
        "decisions": "refusals call_steps call_name",
        "replays": "claims refused bugs_table bugs_markdown",
        "kernels": "recorded_verdict recorded_table kernels_verdict kernels_table kernels_markdown",
        "scorecard": "score_verdict score_table score_reasons score_not_tried tick_table",
        "rich_text": "written_for RichText sentence figure_or_reason",
    },
)
