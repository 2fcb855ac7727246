"""Readers of other people's trace formats, chosen by content."""
