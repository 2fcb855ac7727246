"""``python -m wastedcores`` is the command ``wastedcores``."""

from wastedcores.cli import main

if __name__ == "__main__":
    main()
