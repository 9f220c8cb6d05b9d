"""Texts for the log about failed connections, for all code with sockets. Also the events whose notes are warnings."""

from collections.abc import Iterable
from traceback import format_tb
from typing import Final

from stomprelay.session.effects import Event

EXPLAINING: Final = frozenset({Event.FOREIGN, Event.LOST, Event.REFUSED})
"""The events whose notes explain the end of a session."""
WARNINGS: Final = EXPLAINING | {Event.ERROR}
"""The events whose notes are logged as warnings. All other notes are logged as information."""

CLOSED: Final = "connection closed"
"""The text for a connection that the peer closed in the normal way."""
UNREAD: Final = "connection closed while it was not read from"
RESET: Final = "connection reset"
REFUSED: Final = "connection refused"
TIMED_OUT: Final = "connection timed out"
UNKNOWN_HOST: Final = "host name not found"


def spell_fault(error: Exception) -> str:
    """Return the traceback of an unexpected error without the error's text, which may quote a peer."""
    return f"failed: {type(error).__name__}\n{''.join(format_tb(error.__traceback__))}"


_NO_TLS: Final = "the peer does not speak TLS"
_TLS: Final = {
    "certificate verify failed": "the peer's certificate was not accepted",
    "wrong version number": _NO_TLS,
    "packet length too long": _NO_TLS,
    "record layer failure": _NO_TLS,
    "http request": "the peer speaks HTTP, not TLS",
    "https proxy request": _NO_TLS,
    "peer did not return a certificate": "the peer did not show a certificate",
    "no shared cipher": "no cipher in common",
    "unsupported protocol": "no TLS version in common",
    "tlsv1 alert unknown ca": "the peer does not know the authority of our certificate",
    "tls alert certificate unknown": "the peer does not accept our certificate",
    "tlsv13 alert certificate required": "the peer demands a certificate of ours",
}
"""OpenSSL's reasons in its own words, each with its meaning."""


def spell_tls(reasons: Iterable[str]) -> str:
    """Return why TLS failed, in one line: each of OpenSSL's reasons, after its meaning if that is known."""
    words = [f"{_TLS[each]} ({each})" if each in _TLS else each for each in reasons]
    return f"TLS: {', '.join(words)}" if words else "TLS failed"


def rejected(problem: str) -> str:
    """Return the text for the log about a peer's certificate that was not accepted because of `problem`."""
    return f"TLS: certificate verify failed: {problem}"
