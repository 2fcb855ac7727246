"""Placement of waking and new tasks, one file per kernel generation."""
