"""``python -m osvm`` is the command ``osvm``."""

import sys

from osvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
