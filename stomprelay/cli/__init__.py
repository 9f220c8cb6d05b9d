"""The program `stomprelay`.

`commands` has the parser and the simple commands. `configuration` has the commands that run or check a relay. `passwd`
changes the users file. `asking` has the commands that ask a running relay. `move` has the commands that move clients to
brokers of another product. A program that starts a relay calls `hold` first.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Final

_HELD: Final = ("SIGHUP", "SIGUSR1", "SIGUSR2")
"""The signals that do not end a running relay. SIGTERM and SIGINT end a relay, also while it starts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong arguments raise `SystemExit`, as in argparse."""
    given = sys.argv[1:] if arguments is None else arguments
    begins = given[:1] == ["run"]
    if begins:
        hold()
    try:
        # Imported late, when signals are blocked already.
        from stomprelay.cli import commands

        return commands.main(given)
    finally:
        if begins:
            release()


def hold() -> None:
    """Block the signals that would end a relay during its start. The signals are also blocked in children and threads
    that start meanwhile. Call this function before anything else. `service.process.Signals` unblocks the signals, and
    handles the signals that came meanwhile.
    """
    _mask("SIG_BLOCK")


def release() -> None:
    """Unblock the signals that `hold` blocked. If one of them came meanwhile, it ends the process now."""
    _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), [getattr(signal, each) for each in _HELD])
