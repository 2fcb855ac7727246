"""``python -m wastedcores`` is the command ``wastedcores``."""

from wastedcores.cli import run

if __name__ == "__main__":
    run()
