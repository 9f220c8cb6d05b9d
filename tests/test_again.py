"""A run of the tests that failed passes where each failure was an accident, and none was of the core."""

import pytest

from tests.again import verdict

WORKERS = "tests/e2e/test_workers.py::test_two_workers"
RELAY = "tests/relay/test_relay.py::test_hello"


@pytest.mark.parametrize(
    ("failed", "again", "unstable", "passed"),
    [
        ([WORKERS], [], [WORKERS], True),
        ([WORKERS], [WORKERS], [], False),
        ([RELAY], [], [RELAY], False),
        ([RELAY, WORKERS], [WORKERS], [RELAY], False),
    ],
)
def test_verdict(failed: list[str], again: list[str], unstable: list[str], passed: bool) -> None:
    """What passes alone is unstable, and that is no failure but in the core."""
    assert verdict(failed, again) == (unstable, passed)
