"""Findings in words and small tables. Nothing here draws."""
