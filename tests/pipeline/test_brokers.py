"""Brokers that come and go."""

from stomprelay.pipeline.match.outages import Brokers


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
