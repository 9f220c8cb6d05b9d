"""The program `stomprelay`.

`commands` its commands, and those that need nothing else; `configuration` the commands that run or check a relay;
`passwd` the users file; `asking` the commands
that ask a running relay. A program that begins a relay calls `hold` first.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Final

_HELD: Final = ("SIGHUP", "SIGUSR1", "SIGUSR2")
"""The signals that do not end a running relay. SIGTERM and SIGINT end it also during its start, as they should."""


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


def hold() -> None:
    """Block the signals that would end a relay during its start; children and threads that begin meanwhile inherit the
    block. Call this before anything else. `service.process.Signals` unblocks them, and gets those that came.
    """
    _mask("SIG_BLOCK")


def release() -> None:
    """Unblock the signals; a signal that came while they were blocked ends the process now."""
    _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), [getattr(signal, each) for each in _HELD])
