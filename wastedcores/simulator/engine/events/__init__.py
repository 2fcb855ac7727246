"""Future events in order of time."""
