"""Analyses of one trace or several: the check with its context, comparisons, and explanations."""
