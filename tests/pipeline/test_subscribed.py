"""Which subscription a MESSAGE is for: the same as the relay says."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.match.subscriptions import Subscribed, Subscription
from stomprelay.session.subscriptions import Subscriptions

IDS = st.sampled_from([None, None, "1", "2", "relay-1"])
PLACES = st.sampled_from(["/queue/a", "/queue/b"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["subscribe", "unsubscribe", "deliver"]), IDS, PLACES), min_size=1, max_size=30
)


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
    numbers: dict[Subscription, int] = {}
    dumped = ours.dump(numbers)
    again = Subscribed.load(dumped, [Subscription.load(each.dump()) for each in numbers])
    assert (again.acknowledging, [*again.opened], [*again.ended]) == (
        ours.acknowledging,
        [*ours.opened],
        [*ours.ended],
    )


def test_names_for_people() -> None:
    """A subscription without a name is called by its destination."""
    ours = Subscribed()
    ours.subscribe(None, "/queue/a", "auto", 0)
    ours.subscribe("1", "/queue/b", "auto", 0)
    assert [each.shown for each in ours.opened.values()] == ["/queue/a", "1"]
    assert (ours.meant("/queue/a"), ours.meant("/queue/b")) == (ours.opened["relay-1"], None)
