"""Figures: every public function returns a plotly Figure. A module is imported when one of its names is first used."""

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "views": "overview zoom who_ran waits avoidable load looked_at",
        "heatmaps": "heatmap side_by_side load_heatmap",
        "timelines": "timeline threads_per_node",
        "waiting": "waiting_times lost_time",
        "critical_path": "path_timeline",
        "whatif": "predicted",
        "frequencies": "frequency",
        "event_views": "events",
        "kernel_user": "transitions",
        "fork_wait": "tick_frequencies fork_wait_zoom idle_before assumptions",
        "anomalies": "group_stays idle_exits spin_costs page_faults page_costs",
        "masks": "considered",
        "domains": "domain_areas node_graph",
        "domain_groups": "groups_compared pull_matrix",
        "balancing": "balancing_step balancing_steps",
        "decisions": "decision_marks decision_step decision_steps",
        "compare": "costs balance_calls spread aligned suggestions",
        "recorded": "recorded_dots",
        "kernels": "kernels_compared",
        "proofs": "fates",
        "scorecard": "score_dots tornado noise_curves quiet_curve size_curves checker_curves",
    },
)
