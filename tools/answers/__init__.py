"""What the verbs print with --json, as models: what a class of the package describes comes from that class."""
