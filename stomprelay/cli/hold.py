"""Blocks signals during the start of a relay. They would end the process before the relay can react to them.

A program that begins a relay calls `hold` before anything else, because most of the start is loading the relay's
modules. `service.process.Signals` unblocks the signals; those that came in between are delivered then.
"""

import signal
from typing import Final

_HELD: Final = ("SIGHUP", "SIGUSR1", "SIGUSR2")
"""The signals that do not end a running relay. SIGTERM and SIGINT end it also during its start, as they should."""


def hold() -> None:
    """Block these signals, where there are some. Children and threads that begin meanwhile inherit the block."""
    _mask("SIG_BLOCK")


def release() -> None:
    """Unblock the signals, without anything to react to them."""
    _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), [getattr(signal, each) for each in _HELD])
