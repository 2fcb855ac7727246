"""Mutates small valid files of every format and looks at what reading them gives (tests/adversary/)."""
