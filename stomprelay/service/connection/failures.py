"""Reasons, as numbers or words: why a connection is not read from, why the relay ends it, and why it ended or could not
be established. The words are made from Twisted's exceptions.
"""

import errno
import os
from enum import IntEnum
from typing import Final

from OpenSSL import SSL
from twisted.internet import error
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from stomprelay.session.reasons import CLOSED, REFUSED, RESET, TIMED_OUT, UNKNOWN_HOST, spell_tls

PRESSURE: Final = 1
"""The other connection cannot be written to fast enough."""
ASKED: Final = 2
"""The core has stopped the reading, by the effect `Pause`."""
JOURNAL: Final = 4
"""The journal has no room for further frames."""
TURN: Final = 8
"""Received frames wait until other sessions had their turn."""
UNREAD: Final = 16
"""Bytes received over WebSocket are examined when other sessions had their turn."""
MEMORY: Final = 32
"""Too many bytes are kept of all clients, and of this session."""


class Farewell(IntEnum):
    """Why the relay ends a client's connection: close codes of WebSocket (RFC 6455, section 7.4; IANA)."""

    DONE = 1000
    LEAVING = 1001
    LATER = 1013
    """The client may try again later: there are too many clients now."""


_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (error.ConnectionDone, CLOSED),
    (error.ConnectionAborted, "connection aborted"),
    (error.ConnectionLost, RESET),
    (error.ConnectionRefusedError, REFUSED),
    (error.DNSLookupError, UNKNOWN_HOST),
    (error.NoRouteError, "no route to host"),
    (error.TCPTimedOutError, TIMED_OUT),
    (error.TimeoutError, TIMED_OUT),
    (CancelledError, "cancelled"),
    (error.ConnectingCancelledError, "cancelled"),
    (error.UserError, "cancelled"),
)


_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a connect that say nothing about its target: no descriptors, no memory."""


def spell(failure: Failure) -> str:
    """Return why a connection ended or was not established, in one line for the log, without secrets."""
    problem = failure.value
    if isinstance(problem, SSL.Error):
        queue = problem.args[0] if problem.args and isinstance(problem.args[0], list) else []
        return spell_tls([each[-1] for each in queue if isinstance(each, tuple) and each and each[-1]])
    for kind, words in _REASONS:
        if isinstance(problem, kind):
            return words
    text = " ".join(str(problem).split())
    return text or type(problem).__name__


def shortage(failure: Failure) -> str:
    """Return what this process lacked to connect to a broker (descriptors, memory), or "". For a socket that cannot be
    created, Twisted reports that it cannot be bound. A name look-up may have failed because no descriptor was left.
    """
    problem = failure.value
    if isinstance(problem, error.DNSLookupError):
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as trouble:
            return os.strerror(trouble.errno or 0) if trouble.errno in _OURS else ""
        return ""
    number = getattr(problem, "osError", None) or getattr(problem, "errno", None)
    return (
        os.strerror(number) if isinstance(problem, OSError | error.ConnectError) and number in _OURS else ""
    )
