"""What a session is delivered, and what it answers."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.deliveries import (
    PendingDeliveries,
    PendingDelivery,
    SeenSubscription,
    Subscribed,
)
from stomprelay.session.subscriptions import Subscriptions
from tests.pipeline.script import Script

IDS = st.sampled_from([None, None, "1", "2", "relay-1"])
PLACES = st.sampled_from(["/queue/a", "/queue/b"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["subscribe", "unsubscribe", "deliver"]), IDS, PLACES), min_size=1, max_size=30
)


def test_answers_while_one_of_several_brokers_is_gone() -> None:
    """The relay does not look which delivery is meant, so it stays, under its name."""
    script = Script()
    script.finds("b")
    script.subscribes()
    script.gets("t1")
    script.gets("t2", at="b")
    script.loses("a")
    script.says("ACK", ack="t1")
    script.recovers("a", "c")
    script.gets("t1", at="c")
    script.says("ACK", ack="t1")
    script.says("ACK", ack="relay-ack-3")
    script.says("ACK", ack="t2")
    assert script.outcomes() == ["returned", "acked", "acked"]
    assert [row.stale_acks for row in script.conversation.outages()] == [2]


def test_one_name_from_two_brokers() -> None:
    """The client is given a token for the second, on older versions in place of its message-id."""
    script = Script("1.1", "1.1")
    script.finds("b", "1.1")
    script.subscribes()
    script.gets("m", trace="t1")
    script.gets("m", trace="t2", at="b")
    script.says("ACK", message_id="relay-ack-2", subscription="1")
    assert script.outcomes() == ["delivered", "acked"]
    script.says("ACK", message_id="m", subscription="1")
    assert script.outcomes() == ["acked", "acked"]


@given(steps=STEPS, more=st.integers(0, 20))
def test_the_relay_says_the_same(steps: list[tuple[str, str | None, str]], more: int) -> None:
    """Whatever is subscribed and unsubscribed, with names and without."""
    theirs, ours = Subscriptions(), Subscribed()
    steps += [("subscribe", f"x{at}", "/queue/c") for at in range(more)]
    steps += [("unsubscribe", f"x{at}", "/queue/c") for at in range(more)]
    for what, id, place in [*steps, ("deliver", "x0", "/queue/c"), ("deliver", None, "/queue/c")]:
        headers = [(b"destination", place.encode()), (b"ack", b"client")]
        name = None if id is None else id.encode()
        if name is not None:
            headers.append((b"id", name))
        if what == "subscribe":
            theirs.opened(headers)
            ours.subscribe(id, place, "client", 0)
        elif what == "unsubscribe":
            theirs.closed(headers)
            ours.unsubscribe(id, place)
        else:
            found, mine = theirs.delivered(name, place.encode()), ours.delivered(id, place)
            assert (None if found is None else found.id.decode()) == (None if mine is None else mine.id)
            assert found is None or mine is None or found.open == mine.open
    assert theirs.acknowledging == ours.acknowledging
    numbers: dict[SeenSubscription, int] = {}
    dumped = ours.dump(numbers)
    again = Subscribed.load(dumped, [SeenSubscription.load(each.dump()) for each in numbers])
    one, other = ((each.acknowledging, [*each.opened], [*each.ended]) for each in (again, ours))
    assert one == other


def test_deliveries_that_the_relay_did_not_number() -> None:
    """They are known by their names only."""
    ours = PendingDeliveries()
    mine = SeenSubscription("1", "/queue/a", "client-individual", 0, named=True)
    for name in ("m1", "m2"):
        row: s.Transfer = ["k", 1, "segment", 1, 0, 2, *[None] * (len(s.FIELDS) - 6)]
        ours.noted(PendingDelivery(mine, name, name, "a", row), alike=True, counted=False)
    assert ours.named("relay-ack-1", None, None) is None
    found = ours.named("m2", None, None)
    assert found is not None
    assert found.message_id == "m2"
