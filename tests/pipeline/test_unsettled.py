"""Which delivery an ACK is about: the same as the relay's ledger says."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.match import transfer as s
from stomprelay.pipeline.match.deliveries import PendingDeliveries, PendingDelivery
from stomprelay.pipeline.match.outages import BrokerLoss
from stomprelay.pipeline.match.subscriptions import Subscription
from stomprelay.session.ledger import Ledger
from stomprelay.session.subscriptions import Subscription as Theirs

STEP = st.tuples(
    st.sampled_from(
        ["message", "message", "message", "ack", "ack", "token", "abort", "commit", "lost", "batch"]
    ),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)


@given(steps=st.lists(STEP, max_size=40))
def test_the_relay_says_the_same(steps: list[tuple[str, int, bool, bool]]) -> None:
    """Names that come again, transactions, cumulative answers, brokers that are lost, and ends of batches."""
    theirs, ours = Ledger(1000), PendingDeliveries()
    modes = ("client", "client-individual")
    subscriptions = [
        Theirs(b"%d" % at, [(b"ack", mode.encode())], named=True) for at, mode in enumerate(modes)
    ]
    mine = [Subscription(str(at), "/queue/a", mode, 0, named=True) for at, mode in enumerate(modes)]
    for at, (what, name, flag, other) in enumerate(steps):
        ack, token = f"a{name}", f"relay-ack-{name + 1}"
        if what == "message":
            tokened = theirs.taken(ack.encode())
            theirs.noted(subscriptions[flag], b"m%d" % name, ack.encode(), tokened=tokened)
            row: s.Transfer = ["k", at, "segment", at, 0, 2, *[None] * (len(s.FIELDS) - 6)]
            ours.noted(PendingDelivery(mine[flag], f"m{name}", ack, "a", row), alike=True, counted=True)
        elif what in ("ack", "token"):
            said = token if what == "token" else ack
            if other and what == "ack":
                said = f"m{name}"
                found = theirs.by_message(said.encode(), b"%d" % flag)
                got = ours.named(None, said, str(int(flag)))
            else:
                found, got = theirs.by_token(said.encode()), ours.named(said, None, None)
            assert (None if found is None else found.order) == (None if got is None else got.order)
            if found is not None and got is not None:
                assert found.lost == (got.loss is not None)
                transaction = "x" if flag else None
                theirs.settled(found, b"x" if flag else None)
                ours.answered(got, transaction, at, "acked")
        elif what == "abort":
            theirs.aborted(b"x")
            ours.aborted("x")
        elif what == "commit":
            theirs.committed(b"x")
            ours.committed("x")
        elif what == "lost":
            theirs.lost()
            loss = BrokerLoss(None, None, "a", at, planned=False)
            for each in ours.of("a"):
                each.loss = loss
        else:
            numbers: dict[Subscription, int] = {}
            losses = [each.loss for each in ours if each.loss is not None]
            dumped = ours.dump(numbers, losses)
            for subscription in mine:
                numbers.setdefault(subscription, len(numbers))
            copies = {each: Subscription.load(each.dump()) for each in numbers}
            mine = [copies[each] for each in mine]
            ours = PendingDeliveries.load(dumped, list(copies.values()), losses)
    assert sorted(each.order for each in ours) == sorted(
        [each.order for each in theirs._pending.values()]
        + [each.order for held in theirs._held.values() for each in held]
    )


def test_what_is_forgotten() -> None:
    """Deliveries of a broker whose loss is over for long enough."""
    ours = PendingDeliveries()
    mine = Subscription("1", "/queue/a", "client", 0, named=True)
    row: s.Transfer = ["k", 1, "segment", 1, 0, 2, *[None] * (len(s.FIELDS) - 6)]
    ours.noted(PendingDelivery(mine, "m", "a", "a", row), alike=True, counted=True)
    loss = BrokerLoss(None, None, "a", 5, planned=False)
    for each in ours.of("a"):
        each.loss = loss
    ours.forget(100)
    assert len(list(ours)) == 1
    loss.recovered("b", 50, 0)
    ours.forget(51)
    assert (list(ours), mine.unsettled) == ([], {})


def test_deliveries_that_the_relay_did_not_number() -> None:
    """They are known by their names only."""
    ours = PendingDeliveries()
    mine = Subscription("1", "/queue/a", "client-individual", 0, named=True)
    for name in ("m1", "m2"):
        row: s.Transfer = ["k", 1, "segment", 1, 0, 2, *[None] * (len(s.FIELDS) - 6)]
        ours.noted(PendingDelivery(mine, name, name, "a", row), alike=True, counted=False)
    assert ours.named("relay-ack-1", None, None) is None
    found = ours.named("m2", None, None)
    assert found is not None
    assert found.message_id == "m2"
