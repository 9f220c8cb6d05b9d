"""A client's standing orders, and how each side names them."""

from stomprelay.session.subscriptions import MADE, Subscriptions
from stomprelay.wire.dialect import Headers

A, B = (b"destination", b"/queue/a"), (b"destination", b"/queue/b")


def sub(*headers: tuple[bytes, bytes]) -> Headers:
    """The headers of a SUBSCRIBE or UNSUBSCRIBE."""
    return list(headers)


def test_a_name_of_ours_is_nobody_elses() -> None:
    """A client may have chosen the very id that would come next, as a relay behind a relay sees it."""
    subscriptions = Subscriptions()
    theirs = [subscriptions.opened(sub((b"id", MADE + b"%d" % n), A)) for n in (1, 2)]
    ours = subscriptions.opened(sub(B))
    assert len(subscriptions) == 3
    assert [subscriptions.named(each.id) for each in [*theirs, ours]] == [*theirs, ours]


def test_a_message_that_is_found_by_destination() -> None:
    """One that names none, or by a name that Artemis made on 1.0: the oldest, or the only one; none with a name."""
    subscriptions = Subscriptions()
    assert subscriptions.delivered(None, b"/queue/a") is None
    one = subscriptions.opened(sub(A))
    assert subscriptions.delivered(None, b"/queue/a") is one
    assert subscriptions.delivered(None, b"/queue/renamed") is one
    two = subscriptions.opened(sub(B))
    assert subscriptions.delivered(None, b"/queue/b") is two
    assert subscriptions.delivered(None, b"/queue/renamed") is None
    subscriptions.opened(sub(A))
    assert subscriptions.delivered(None, b"/queue/a") is one
    subscriptions = Subscriptions()
    one = subscriptions.opened(sub(A))
    subscriptions.opened(sub((b"id", b"2"), B))
    assert subscriptions.delivered(b"subscription/a", b"/queue/a") is one
    assert subscriptions.delivered(b"subscription/b", b"/queue/b") is None
    subscriptions.closed(sub(A))
    assert subscriptions.delivered(b"subscription/a", b"/queue/a") is one


def test_ended_subscriptions_are_not_remembered_for_ever() -> None:
    """A client that subscribes and unsubscribes all day costs no more memory than one that does it a few times."""
    subscriptions = Subscriptions()
    for n in range(1000):
        subscriptions.opened(sub((b"id", b"%d" % n), A))
        subscriptions.closed(sub((b"id", b"%d" % n)))
    assert subscriptions.delivered(b"999", b"") is not None
    assert sum(subscriptions.delivered(b"%d" % n, b"") is not None for n in range(1000)) < 100
    assert len(subscriptions) == 0


def test_a_subscription_whose_id_is_used_again() -> None:
    """Where the broker does not mind, it has ended, and the new one is the newest, whatever its destination."""
    subscriptions = Subscriptions()
    first = subscriptions.opened(sub((b"id", b"1"), A, (b"ack", b"client")))
    second = subscriptions.opened(sub((b"id", b"2"), A))
    third = subscriptions.opened(sub((b"id", b"1"), A))
    assert [each.open for each in (first, second, third)] == [False, True, True]
    assert list(subscriptions) == [second, third]
    assert subscriptions.oldest(b"/queue/a") is second
    assert subscriptions.acknowledging == 0
    assert subscriptions.take_closed() == (first,)
    assert subscriptions.closed(sub(A)) is second
    assert subscriptions.closed(sub(A)) is third
    assert subscriptions.oldest(b"/queue/a") is None
    assert subscriptions.take_closed() == (second, third)
    assert subscriptions.take_closed() == ()
