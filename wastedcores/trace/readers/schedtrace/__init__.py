"""The file that this project's own collectors write."""
