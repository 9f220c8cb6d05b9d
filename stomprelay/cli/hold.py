"""Signals that come before the relay is there to heed them. They would end the process; so they wait.

Whoever begins a relay calls `hold` before anything else, for loading the relay takes the better part of its start. What
heeds a signal (`service.process.Signals`) has it wait no more; one that came meanwhile comes then.
"""

import signal
from typing import Final

_HELD: Final = ("SIGHUP", "SIGUSR1", "SIGUSR2")
"""Those that a relay that runs goes on after; SIGTERM and SIGINT end one that starts, as they should."""


def hold() -> None:
    """Have these signals wait. Does nothing where there are none (Windows). What begins before they are heeded, a child
    process or a thread, inherits that they wait.
    """
    _mask("SIG_BLOCK")


def release() -> None:
    """Have them wait no more: nobody will heed them."""
    _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), [getattr(signal, each) for each in _HELD])
