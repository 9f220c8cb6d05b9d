"""Why a connection ended or could not be established, in a few words for the log."""

from typing import Final

from OpenSSL import SSL
from twisted.internet import error
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

_WORDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (error.ConnectionDone, "connection closed"),
    (error.ConnectionAborted, "connection aborted"),
    (error.ConnectionLost, "connection reset"),
    (error.ConnectionRefusedError, "connection refused"),
    (error.DNSLookupError, "host name not found"),
    (error.NoRouteError, "no route to host"),
    (error.TCPTimedOutError, "connection timed out"),
    (error.TimeoutError, "connection timed out"),
    (CancelledError, "cancelled"),
    (error.ConnectingCancelledError, "cancelled"),
    (error.UserError, "cancelled"),
)

_TLS: Final = {
    "certificate verify failed": "the peer's certificate was not accepted",
    "wrong version number": "the peer does not speak TLS",
    "packet length too long": "the peer does not speak TLS",
    "record layer failure": "the peer does not speak TLS",
    "http request": "the peer speaks HTTP, not TLS",
    "https proxy request": "the peer does not speak TLS",
    "peer did not return a certificate": "the peer did not show a certificate",
    "no shared cipher": "no cipher in common",
    "unsupported protocol": "no TLS version in common",
    "tlsv1 alert unknown ca": "the peer does not know the authority of our certificate",
    "tlsv13 alert certificate required": "the peer demands a certificate of ours",
}
"""OpenSSL's reasons and what they mean; any other is shown in OpenSSL's words."""


def spell(failure: Failure) -> str:
    """The reason in one line. It may name hosts and certificates, never a secret."""
    problem = failure.value
    if isinstance(problem, SSL.Error):
        return _spell_tls(problem)
    for kind, words in _WORDS:
        if isinstance(problem, kind):
            return words
    text = " ".join(str(problem).split())
    return text or type(problem).__name__


def _spell_tls(problem: SSL.Error) -> str:
    queue = problem.args[0] if problem.args and isinstance(problem.args[0], list) else []
    reasons = [entry[-1] for entry in queue if isinstance(entry, tuple) and entry and entry[-1]]
    if not reasons:
        return "TLS failed"
    words = [f"{_TLS[each]} ({each})" if each in _TLS else each for each in reasons]
    return f"TLS: {', '.join(words)}"
