"""Reasons in words."""

import pytest
from OpenSSL import SSL
from twisted.internet import error
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from stomprelay.service.connection.failures import spell

REASONS: list[tuple[Exception, str]] = [
    (error.ConnectionDone(), "connection closed"),
    (error.ConnectionLost(), "connection reset"),
    (error.ConnectionAborted(), "connection aborted"),
    (error.ConnectionRefusedError(111, "Connection refused"), "connection refused"),
    (error.DNSLookupError("no results for hostname lookup: x"), "host name not found"),
    (error.NoRouteError(113, "No route to host"), "no route to host"),
    (error.TCPTimedOutError(110, "Operation timed out"), "connection timed out"),
    (error.TimeoutError(), "connection timed out"),
    (error.ConnectingCancelledError(None), "cancelled"),
    (CancelledError(), "cancelled"),
    (OSError(24, "Too many open files"), "[Errno 24] Too many open files"),
    (ValueError("two\nlines"), "two lines"),
    (RuntimeError(), "RuntimeError"),
    (
        SSL.Error([("SSL routines", "", "certificate verify failed")]),
        "TLS: the peer's certificate was not accepted (certificate verify failed)",
    ),
    (
        SSL.Error([("SSL routines", "", "wrong version number")]),
        "TLS: the peer does not speak TLS (wrong version number)",
    ),
    (
        SSL.Error([("SSL routines", "", "peer did not return a certificate")]),
        "TLS: the peer did not show a certificate (peer did not return a certificate)",
    ),
    (SSL.Error([("SSL routines", "", "bad extension")]), "TLS: bad extension"),
    (SSL.Error([("a", "b", "first"), ("a", "b", "second")]), "TLS: first, second"),
    (SSL.Error([]), "TLS failed"),
    (SSL.Error(), "TLS failed"),
    (SSL.SysCallError(-1, "Unexpected EOF"), "TLS failed"),
]


@pytest.mark.parametrize(("problem", "words"), REASONS, ids=lambda value: repr(value)[:60])
def test_a_reason_is_one_line(problem: Exception, words: str) -> None:
    """What the log says of each."""
    assert spell(Failure(problem)) == words
