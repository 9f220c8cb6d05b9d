"""Brokers of a session as they come and go, and what is told of their losses."""

from typing import Any

from stomprelay.pipeline.sessions.outages import OUTAGE, BrokerLoss, Brokers, Outages


def test_a_broker_is_lost_and_another_one_found() -> None:
    """The loss that goes on is told, and what it came to."""
    brokers = Brokers()
    brokers.connected("a")
    loss = brokers.left("a", {"upstream": "main"}, "me", 5, planned=False)
    assert (brokers.missing, brokers.going("a"), brokers.going("b")) == (loss, loss, None)
    assert brokers.left("a", {}, "me", 6, planned=False) is loss
    brokers.connected("b")
    assert brokers.missing is None
    assert brokers.recovered("a", {"broker": "b", "resent": "2"}, "me", 9) is loss
    assert loss.row("relay", "s") == [
        *("relay", "s", "me", "main", "a", "b", 5, 9, False, False, 2, 0, 0),
    ]
    assert brokers.going("a") is None
    assert not brokers.several


def test_several_at_a_time() -> None:
    """While one is there, none is missing."""
    brokers = Brokers()
    brokers.connected("a")
    brokers.connected("b")
    brokers.left("a", {}, None, 5, planned=False)
    assert (brokers.several, brokers.missing) == (True, None)


def test_ends() -> None:
    """Whatever goes on when the session ends is given up; so is a group that is given up."""
    brokers = Brokers()
    brokers.left("a", {"given_up": "1"}, None, 5, planned=False)
    assert [each.given_up for each in brokers.losses] == [True]
    brokers.left("b", {}, None, 6, planned=True)
    brokers.ended()
    assert [each.given_up for each in brokers.losses] == [True, True]


def test_a_broker_that_was_left_without_a_word() -> None:
    """Its successor tells."""
    brokers = Brokers()
    loss = brokers.recovered("a", {"broker": "b"}, None, 9)
    assert (loss.planned, loss.lost_ns, loss.recovered_ns) == (True, 9, 9)


def test_only_changes_are_told_and_old_losses_forgotten() -> None:
    """Those that go on stay, and those that are wanted."""
    brokers = Brokers()
    first = brokers.left("a", {}, None, 5, planned=False)
    assert len(list(brokers.told("relay", "s"))) == 1
    assert list(brokers.told("relay", "s")) == []
    brokers.forget(100, set())
    assert brokers.losses == [first]
    first.recovered("b", 9, 0)
    brokers.forget(9, set())
    brokers.forget(10, {id(first)})
    assert brokers.losses == [first]
    brokers.forget(10, set())
    assert brokers.losses == []


def test_it_goes_on_in_the_next_batch() -> None:
    """As it was."""
    brokers = Brokers()
    brokers.connected("a")
    brokers.left("b", {}, None, 5, planned=False)
    assert Brokers.load(brokers.dump()).dump() == brokers.dump()


def test_its_row_is_one_of_outages() -> None:
    """Column by column."""
    loss = BrokerLoss("me", "main", "a", 5, planned=True)
    loss.stale()
    row = dict(zip(OUTAGE.names, loss.row("relay", "s"), strict=True))
    assert (row["broker"], row["lost_ns"], row["recovered_ns"], row["planned"]) == ("a", 5, None, True)
    assert (row["stale_acks"], row["given_up"], row["moved_to"]) == (1, False, None)


def test_when_it_is_over() -> None:
    """When another broker is there, or will never be."""
    first, second = (BrokerLoss(None, None, "a", 5, planned=False) for _ in range(2))
    assert (first.over, first.ended_ns) == (False, 5)
    first.recovered("b", 7, 1)
    second.gave_up()
    assert (first.over, first.ended_ns, second.over, second.ended_ns) == (True, 7, True, 5)


def test_a_loss_goes_on_in_the_next_batch() -> None:
    """What was told is not new then."""
    loss = BrokerLoss("me", "main", "a", 5, planned=True)
    loss.recovered("b", 7, 3)
    again = BrokerLoss.load(loss.dump())
    assert (again.dump(), again.dirty, loss.dirty) == (loss.dump(), False, True)


def test_its_columns() -> None:
    """A loss fills them, each once."""
    assert (
        len(set(OUTAGE.names))
        == len(OUTAGE.names)
        == len(BrokerLoss(None, None, "a", 1, planned=False).row("r", "s"))
    )
    assert OUTAGE.ddl.startswith("`relay` string NOT NULL")


def _row(
    lost: int, recovered: int | None = None, *, session: str = "s", planned: bool = False, **more: Any
) -> list[Any]:
    known = {
        "relay": "r",
        "session": session,
        "client": "c",
        "upstream": "main",
        "broker": "a",
        "moved_to": None,
        "lost_ns": lost,
        "recovered_ns": recovered,
        "planned": planned,
        "given_up": False,
        "resent": 0,
        "stale_acks": 0,
        "duplicates": 0,
        **more,
    }
    return [known[name] for name in OUTAGE.names]


def _duplicates(outages: Outages) -> list[int]:
    return [row[-1] for row in outages.changed]


def test_duplicates() -> None:
    """A delivery before the loss, and another one of its message after it; the first loss counts."""
    outages = Outages([])
    outages.told([_row(10, 20), _row(50, 60)])
    outages.repeated([("s", "a", 5, 15), ("s", "a", 5, 70), ("s", "a", 30, 55)])
    assert _duplicates(outages) == [2, 1]
    outages.repeated([("s", "a", 30, 40), ("s", "b", 5, 15), ("t", "a", 5, 15), ("s", None, 5, 15)])
    assert _duplicates(outages) == [2, 1]


def test_of_a_planned_move_what_came_meanwhile() -> None:
    """It was lost as well."""
    outages = Outages([])
    outages.told([_row(10, 20, planned=True)])
    outages.repeated([("s", "a", 15, 25), ("s", "a", 21, 25)])
    assert _duplicates(outages) == [1]


def test_only_what_is_new_is_told() -> None:
    """And with what was counted before."""
    outages = Outages([_row(10), _row(30, duplicates=4)])
    assert (outages.changed, outages.sessions) == ([], {"s"})
    outages.told([_row(30, 40, stale_acks=2)])
    assert outages.changed == [_row(30, 40, stale_acks=2, duplicates=4)]
    outages.repeated([("s", "a", 5, 12)])
    assert _duplicates(outages) == [1, 4]


def test_how_long_they_are_kept() -> None:
    """As long as they go on, or something may still be repeated."""
    outages = Outages([_row(10), _row(20, 30), _row(40, given_up=True)])
    assert [row[6] for row in outages.kept(30)] == [10, 20, 40]
    assert [row[6] for row in outages.kept(31)] == [10, 40]
    assert [row[6] for row in outages.kept(41)] == [10]
