"""Blocks signals during the start of a relay, because they would end it. Call `hold` before anything else.
`service.process.Signals` unblocks them; signals that came in the meantime are delivered then.
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
