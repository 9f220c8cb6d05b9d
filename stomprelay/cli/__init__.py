"""The program `stomprelay`.

`commands` its commands, and those that need nothing else; `configuration` a relay to run or to check, `rules` who
may do what there; `explain` a translation; `passwd` users who may come in; `asking` the ones that ask a relay that
runs. `hold` is what one does first that begins a relay.
"""

import sys
from collections.abc import Sequence

from stomprelay.cli.hold import hold, release

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong usage ends in `SystemExit`, as argparse does."""
    given = sys.argv[1:] if arguments is None else arguments
    begins = given[:1] == ["run"]
    if begins:
        hold()
    try:
        # Loaded when a signal can wait.
        from stomprelay.cli import commands

        return commands.main(given)
    finally:
        if begins:
            release()
