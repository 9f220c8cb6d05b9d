"""The program `stomprelay`.

`commands` its commands, and those that need nothing else; `configuration` the commands that run or check a relay;
`passwd` the users file; `asking` the commands
that ask a running relay. A program that begins a relay calls `hold` first.
"""

import sys
from collections.abc import Sequence

from stomprelay.cli.hold import hold, release

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong usage raises `SystemExit`, as argparse does."""
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
