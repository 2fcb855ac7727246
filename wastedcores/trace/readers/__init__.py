"""Readers of trace formats that other tools write; the reader is chosen by the content of a file."""
