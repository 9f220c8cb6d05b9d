"""Which worker does which test."""

import pytest

from tests.workers import BROKER, MOVES, place, share


def test_real_brokers_start_once(request: pytest.FixtureRequest) -> None:
    """All tests of the run that need real brokers are for one of two workers."""
    for item in request.session.items:
        if item.get_closest_marker("broker"):
            assert share(*place(item.nodeid)) in (BROKER, MOVES), item.nodeid


def test_the_others_do_not_wait_for_them() -> None:
    """A test that needs no real broker is with its module, also where another test of the module needs one."""
    module = "tests/e2e/test_replay.py"
    assert share(module, "test_through_the_relay_to") == BROKER
    assert share(module, "test_killed_again_and_again") == module
