"""Load balancers, one file per kernel generation."""
