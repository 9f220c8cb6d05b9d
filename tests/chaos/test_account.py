"""The books of a run."""

from collections.abc import Callable

import pytest

from chaos.account import Account, Message


def message(number: int, producer: str = "p") -> Message:
    """Give a message of a producer."""
    return Message(producer, number)


def test_what_is_lost() -> None:
    """Confirmed and never received is lost; unconfirmed is not, nor what only a careless reader may have missed."""
    account = Account(careless=frozenset({"/queue/auto"}))
    for number, queue in enumerate(["/queue/a", "/queue/a", "/queue/auto"]):
        account.confirm(message(number), queue, 0.1)
    account.received[message(0)] += 1
    assert account.lost == [message(1)]
    assert account.lost_on_the_way == 1
    account.received[message(1)] += 2
    assert account.lost == []
    assert account.duplicates == 1
    assert not account.failed


def test_order_in_a_queue() -> None:
    """A message behind a later one of its producer is out of order; what comes again, or is elsewhere too, is not."""
    account = Account()
    account.received[message(2)] += 1
    here = [
        message(0),
        message(0, "q"),
        message(5),
        message(2),
        message(5),
        message(3),
        message(4),
        message(1),
    ]
    there = [message(3), message(6)]
    account.drained([here, there])
    assert account.disorder == 2  # 4 behind 5, and 1 behind 4
    assert account.received[message(5)] == account.received[message(3)] == 2


def test_an_aborted_message_that_comes() -> None:
    """What was aborted must not be received."""
    account = Account(aborted={message(1), message(2)})
    account.drained([[message(2)], []])
    assert account.ghosts == 1
    assert account.failed


def _twice(account: Account) -> None:
    account.confirm(message(1), "/queue/a", 0)
    account.received[message(1)] += 1
    account.confirm(message(1), "/queue/a", 0)


@pytest.mark.parametrize(
    "break_it",
    [
        _twice,
        lambda account: account.confirm(message(1), "/queue/a", 0),
        lambda account: account.disconnects.append("gone"),
        lambda account: account.stuck.append("hangs"),
        lambda account: account.drained([[message(2), message(1)]]),
        lambda account: account.withheld.append((1.0, 20.0)),
        lambda account: account.left.append("a session"),
    ],
)
def test_broken_promises(break_it: Callable[[Account], None]) -> None:
    """Each of them alone fails the run."""
    account = Account()
    assert not account.failed
    break_it(account)
    assert account.failed


def test_what_is_no_broken_promise() -> None:
    """A COMMIT of unknown outcome, duplicates and careless readers are told, and fail nothing."""
    account = Account(careless=frozenset({"/queue/auto"}), unknown=3)
    account.confirm(message(1), "/queue/auto", 1.0)
    account.received[message(2)] += 3
    assert not account.failed
