"""Back-pressure between a client and its brokers, with the relay's part played by the test."""

from stomprelay.session.effects import GiveWay
from stomprelay.session.leg import Leg, LegState
from tests.service.harness import FakeTransport
from tests.service.scripted import ScriptedSession


def blocks(scripted: ScriptedSession) -> list[tuple[str, Leg]]:
    """What the relay was told of room, since the last look."""
    return [(said[0], said[1]) for said in scripted.said() if said[0] in {"blocked", "unblocked"}]


# A client and one broker at a time


def test_who_is_full_holds_the_other() -> None:
    """And, having room, lets it go on; the relay need not know."""
    scripted = ScriptedSession()
    _, broker = scripted.open()
    for full, other in ((broker, scripted.client), (scripted.client, broker)):
        full.fills()
        assert not other.reading
        full.drains()
        assert other.reading
    scripted.reactor.advance(1)
    assert blocks(scripted) == []


def test_a_broker_that_was_left_is_not_waited_for() -> None:
    """Full as it may be: what is written there is the past."""
    scripted = ScriptedSession()
    old, first = scripted.open(0)
    _, second = scripted.open(1)
    first.fills()
    assert not scripted.client.reading
    scripted.close(old)
    assert scripted.client.reading
    assert second.reading


def test_a_full_client_holds_the_next_broker_once_it_is_connected() -> None:
    """Not before: an answer to CONNECT that nobody reads would look like none."""
    scripted = ScriptedSession()
    old, _ = scripted.open(0)
    scripted.client.fills()
    scripted.close(old)
    handle = scripted.relay.handle
    scripted.relay.handle = lambda event, now: []  # type: ignore[method-assign]
    leg, broker = scripted.open(1)
    assert broker.reading
    leg.enter(LegState.CONNECTED)
    broker.sends(b"CONNECTED\n\n\0")
    assert not broker.reading
    scripted.relay.handle = handle  # type: ignore[method-assign]
    _, third = scripted.open(2)
    third.sends(b"x")
    assert not third.reading
    scripted.client.drains()
    assert broker.reading
    assert third.reading


def test_a_client_that_leaves_holds_nobody() -> None:
    """What its brokers still send is read, and thrown away."""
    scripted = ScriptedSession()
    scripted.relay.over = False
    _, broker = scripted.open()
    scripted.client.fills()
    assert not broker.reading
    scripted.close(scripted.relay.client)
    assert broker.reading
    broker.sends(b"x")
    assert broker.reading


# Turns


def test_who_gives_way_is_not_read_until_others_had_their_turn() -> None:
    """Then it is read again, and the relay goes on, which may give way once more."""
    scripted = ScriptedSession()
    scripted.relay.answers += [[], [GiveWay(scripted.relay.client)], []]
    scripted.client.sends(b"x")
    scripted.does(GiveWay(scripted.relay.client))
    assert not scripted.client.reading
    scripted.said()
    scripted.reactor.advance(0)
    told = [what for what in scripted.said() if what[0] != "paused"]
    assert [what[0] for what in told] == ["resumed", "gave_way", "resumed", "gave_way"]
    assert scripted.client.reading
    assert scripted.reactor.getDelayedCalls() == []


def test_a_client_that_gave_way_stays_held_for_another_reason() -> None:
    """Its turn comes all the same: what it sent before is carried."""
    scripted = ScriptedSession()
    _, transport = scripted.open()
    scripted.does(GiveWay(scripted.relay.client))
    transport.fills()
    scripted.said()
    scripted.reactor.advance(0)
    assert ("gave_way", scripted.relay.client) in scripted.said()
    assert not scripted.client.reading
    transport.drains()
    assert scripted.client.reading


def test_a_client_that_gave_way_and_went() -> None:
    """The relay goes on with what it sent; where the relay is done with it there is no turn."""
    scripted = ScriptedSession()
    scripted.relay.over = False
    scripted.does(GiveWay(scripted.relay.client))
    scripted.client.disconnects()
    scripted.said()
    scripted.reactor.advance(0)
    assert scripted.said() == [("gave_way", scripted.relay.client)]
    scripted.does(GiveWay(scripted.relay.client))
    scripted.relay.client.enter(LegState.CLOSED)
    scripted.reactor.advance(0)
    assert scripted.said() == []


# A client and several brokers


def several() -> tuple[ScriptedSession, list[Leg], list[FakeTransport]]:
    """A client with a leg on each of three brokers, none of which may hold it."""
    scripted = ScriptedSession()
    scripted.relay.coupled = False
    legs, transports = zip(*(scripted.open(number) for number in range(3)), strict=True)
    scripted.said()
    return scripted, list(legs), list(transports)


def test_a_full_broker_among_several_is_told_to_the_relay() -> None:
    """In the next turn, when all is done that the relay asked for; client and other brokers go on."""
    scripted, legs, (slow, *others) = several()
    slow.fills()
    assert blocks(scripted) == []
    scripted.reactor.advance(0)
    assert blocks(scripted) == [("blocked", legs[0])]
    assert scripted.client.reading
    assert all(other.reading for other in others)
    slow.drains()
    scripted.reactor.advance(0)
    assert blocks(scripted) == [("unblocked", legs[0])]


def test_a_broker_that_is_lost_while_it_is_full_never_has_room() -> None:
    """The relay hears that it is lost, and nothing before that it might write there."""
    scripted, legs, (slow, *_) = several()
    slow.fills()
    scripted.reactor.advance(0)
    scripted.said()
    slow.disconnects()
    scripted.reactor.advance(0)
    assert [said[0] for said in scripted.said()] == ["lost"]
    assert legs[0] not in scripted.runtime.protocols
