"""Addresses that fail are slowed down, and only they; what is known of them has a bound."""

from stomprelay.auth.attempts import FORGET, FREE, MOST, PATIENCE, PLACES, STEP, FailedAttempts


def failing(times: int) -> FailedAttempts:
    """An address that failed so many times at once."""
    attempts = FailedAttempts()
    for _ in range(times):
        attempts.failed("192.0.2.1", 0.0)
    return attempts


def test_a_few_failures_are_free() -> None:
    """Then each attempt waits for the one before, longer with each failure, and nobody else; they are forgotten."""
    attempts = failing(FREE)
    assert [attempts.wait("192.0.2.1", 0.0) for _ in range(100)] == [0.0] * 100
    attempts = failing(FREE + 2)
    assert [attempts.wait("192.0.2.1", 0.0) for _ in range(3)] == [2 * STEP, 4 * STEP, 6 * STEP]
    attempts = failing(MOST)
    assert attempts.wait("192.0.2.2", 0.0) == 0.0
    assert len(attempts) == 1
    attempts = failing(FREE + 2)
    assert attempts.wait("192.0.2.1", 2 * FORGET) == 0.0
    assert len(attempts) == 1
    assert attempts.wait("192.0.2.1", (FREE + 2) * FORGET) == 0.0
    assert len(attempts) == 0


def test_how_fast_one_address_can_guess() -> None:
    """Who would wait too long is not looked at: in an hour little more than one in `STEP` times `MOST` seconds."""
    attempts = failing(100)
    waits = [attempts.wait("192.0.2.1", 0.0) for _ in range(10)]
    assert waits == [STEP * (MOST - FREE), None] + [None] * 8 or waits[1:] == [None] * 9
    assert all(wait is None or wait <= PATIENCE for wait in waits)
    attempts, looked_at, now = FailedAttempts(), 0, 0.0
    while now < 3600:
        wait = attempts.wait("192.0.2.1", now)
        if wait is not None:
            attempts.failed("192.0.2.1", now + wait)
            looked_at += 1
        now += 0.01
    assert looked_at < 3600 / (STEP * (MOST - FREE)) * 1.3


def test_so_many_addresses_are_known() -> None:
    """The one that failed longest ago goes first."""
    attempts = FailedAttempts()
    for number in range(PLACES + 5):
        for _ in range(FREE + 1):
            attempts.failed(f"192.0.2.{number}", 0.0)
    assert len(attempts) == PLACES
    assert attempts.wait("192.0.2.0", 0.0) == 0.0
    assert attempts.wait("192.0.2.5", 0.0) == STEP
