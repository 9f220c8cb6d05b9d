"""`python -m stomprelay`: the same as `stomprelay`."""

import sys

from stomprelay.cli import main

if __name__ == "__main__":
    sys.exit(main())
