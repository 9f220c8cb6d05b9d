"""The pace of one side for the other while brokers come and go, with the relay's part played by the test."""

from stomprelay.session.effects import Close, How, Wake
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.limits import Limits
from tests.service.house import Wire
from tests.service.understudy import Rehearsal


def blocks(play: Rehearsal) -> list[tuple[str, Leg]]:
    """What the relay was told of room, since the last look."""
    return [(said[0], said[1]) for said in play.said() if said[0] in {"blocked", "unblocked"}]


# A client and one broker at a time


def test_a_full_broker_holds_its_client() -> None:
    """And, having room, lets it go on; the relay need not know."""
    play = Rehearsal()
    _, broker = play.open()
    broker.fills()
    assert not play.client.reading
    broker.drains()
    assert play.client.reading
    play.reactor.advance(1)
    assert blocks(play) == []


def test_a_full_client_holds_its_broker() -> None:
    """And lets it go on."""
    play = Rehearsal()
    _, broker = play.open()
    play.client.fills()
    assert not broker.reading
    play.client.drains()
    assert broker.reading


def test_a_client_held_by_a_broker_that_is_lost_is_read_from_again() -> None:
    """The broker's full transport went with it; the next broker has a transport of its own."""
    play = Rehearsal()
    _, first = play.open(0)
    first.fills()
    play.said()
    first.goes()
    assert play.client.reading
    assert [said[0] for said in play.said()] == ["resumed", "lost"]
    _, second = play.open(1)
    assert play.client.reading
    second.fills()
    assert not play.client.reading


def test_a_broker_that_was_left_does_not_let_its_successor_go() -> None:
    """Whatever the old leg's transport does when the new one is full: room, or an end."""
    play = Rehearsal()
    old, first = play.open(0)
    first.fills()
    _, second = play.open(1)
    second.fills()
    first.drains()
    assert not play.client.reading
    play.close(old)
    assert not play.client.reading
    assert first.producer is None
    second.drains()
    assert play.client.reading


def test_a_broker_that_was_left_is_not_waited_for() -> None:
    """Full as it may be: what is written there is the past."""
    play = Rehearsal()
    old, first = play.open(0)
    _, second = play.open(1)
    first.fills()
    assert not play.client.reading
    play.close(old)
    assert play.client.reading
    assert second.reading


def test_a_full_client_holds_the_next_broker_once_it_is_connected() -> None:
    """Not before: an answer to CONNECT that nobody reads would look like none."""
    play = Rehearsal()
    old, _ = play.open(0)
    play.client.fills()
    play.close(old)
    connected = play.relay.connected
    play.relay.connected = lambda leg, now: []  # type: ignore[method-assign]
    leg, broker = play.open(1)
    assert broker.reading
    leg.enter(State.CONNECTED)
    broker.says(b"CONNECTED\n\n\0")
    assert not broker.reading
    play.relay.connected = connected  # type: ignore[method-assign]
    _, third = play.open(2)
    third.says(b"x")
    assert not third.reading
    play.client.drains()
    assert broker.reading
    assert third.reading


def test_no_broker_at_all() -> None:
    """A client that fills and drains while a broker is looked for."""
    play = Rehearsal()
    old, _ = play.open(0)
    play.close(old)
    play.client.fills()
    play.client.drains()
    _, broker = play.open(1)
    broker.says(b"x")
    assert broker.reading


def test_a_client_that_leaves_holds_nobody() -> None:
    """What its brokers still send is read, and thrown away."""
    play = Rehearsal()
    play.relay.over = False
    _, broker = play.open()
    play.client.fills()
    assert not broker.reading
    play.close(play.relay.client)
    assert broker.reading
    broker.says(b"x")
    assert broker.reading


def test_a_client_that_is_gone_has_no_successor_to_hold() -> None:
    """Between brokers, with nobody to be held, pressure is nobody's."""
    play = Rehearsal()
    play.relay.over = False
    play.client.goes()
    _, broker = play.open()
    broker.fills()
    broker.drains()
    play.reactor.advance(0)
    assert blocks(play) == []


# A client and several brokers


def several() -> tuple[Rehearsal, list[Leg], list[Wire]]:
    """A client with a leg on each of three brokers, none of which may hold it."""
    play = Rehearsal()
    play.relay.coupled = False
    legs, wires = zip(*(play.open(number) for number in range(3)), strict=True)
    play.said()
    return play, list(legs), list(wires)


def test_a_full_broker_among_several_is_told_to_the_relay() -> None:
    """In the next turn, when all is done that the relay asked for; client and other brokers go on."""
    play, legs, (slow, *others) = several()
    slow.fills()
    assert blocks(play) == []
    play.reactor.advance(0)
    assert blocks(play) == [("blocked", legs[0])]
    assert play.client.reading
    assert all(other.reading for other in others)
    slow.drains()
    play.reactor.advance(0)
    assert blocks(play) == [("unblocked", legs[0])]


def test_room_that_comes_and_goes_within_a_turn_is_not_told() -> None:
    """Only what is so when it is told."""
    play, legs, (slow, other, _) = several()
    slow.fills()
    slow.drains()
    other.fills()
    other.drains()
    other.fills()
    play.reactor.advance(0)
    assert blocks(play) == [("blocked", legs[1])]
    other.drains()
    other.fills()
    play.reactor.advance(0)
    assert blocks(play) == []


def test_a_broker_that_is_lost_while_it_is_full_never_has_room() -> None:
    """The relay hears that it is lost, and nothing before that it might write there."""
    play, legs, (slow, *_) = several()
    slow.fills()
    play.reactor.advance(0)
    play.said()
    slow.goes()
    play.reactor.advance(0)
    assert [said[0] for said in play.said()] == ["lost"]
    assert legs[0] not in play.runtime.protocols


def test_a_broker_that_is_closed_before_it_is_told_of() -> None:
    """Nothing is told of a leg that the relay closed."""
    play, legs, (slow, *_) = several()
    slow.fills()
    play.close(legs[0])
    play.reactor.advance(0)
    assert blocks(play) == []


def test_a_leg_that_is_closed_by_what_is_told_of_another() -> None:
    """It is not told of itself."""
    play, legs, wires = several()
    for wire in wires[:2]:
        wire.fills()
    told = play.relay.blocked
    play.relay.blocked = lambda leg: [play.close(legs[1]), told(leg)][1]  # type: ignore[method-assign, func-returns-value]
    play.reactor.advance(0)
    assert blocks(play) == [("blocked", legs[0])]


def test_a_full_client_holds_all_its_brokers() -> None:
    """One that joins later, too; and all go on together."""
    play, legs, wires = several()
    play.client.fills()
    assert not any(wire.reading for wire in wires)
    play.close(legs[0])
    _, late = play.open(0)
    late.says(b"x")
    assert not late.reading
    play.client.drains()
    assert all(wire.reading for wire in (*wires, late))


def test_a_second_branch_frees_the_client_from_the_first() -> None:
    """From when it is opened, even if the first broker has been full for long: it is told of instead."""
    play = Rehearsal()
    first, slow = play.open(0)
    slow.fills()
    assert not play.client.reading
    play.relay.coupled = False
    play.open(1)
    assert play.client.reading
    play.reactor.advance(0)
    assert blocks(play) == [("blocked", first)]


def test_what_was_told_is_taken_back_though_the_client_is_held_meanwhile() -> None:
    """A broker that was said to be blocked gets its room told, whoever is coupled by then."""
    play, legs, (slow, *_) = several()
    slow.fills()
    play.reactor.advance(0)
    play.relay.coupled = True
    for leg in legs[1:]:
        play.close(leg)
    assert not play.client.reading
    play.said()
    slow.drains()
    assert play.client.reading
    play.reactor.advance(0)
    assert blocks(play) == [("unblocked", legs[0])]


# Sessions without legs


def test_a_session_between_two_brokers_whose_client_left() -> None:
    """It has no leg at all, and is woken for the next attempt."""
    play = Rehearsal()
    play.relay.over = False
    leg, _ = play.open(0)
    play.close(play.relay.client)
    play.close(leg)
    play.does(Wake(5.0))
    assert play.over == []
    play.said()
    play.reactor.advance(5)
    assert [said[0] for said in play.said()] == ["woke"]
    leg, _ = play.open(1)
    play.relay.over = True
    assert play.over == []
    play.close(leg)
    assert play.over == [play.session]


def test_a_session_without_legs_that_is_given_up() -> None:
    """When it says that it is over there is no leg to close; it ends all the same, once, and nobody wakes it."""
    play = Rehearsal()
    play.relay.over = False
    play.client.goes()
    play.does(Wake(5.0))
    play.relay.answers.append([Wake(9.0)])
    woke = play.relay.woke

    def gives_up(now: float) -> object:
        play.relay.over = True
        return woke(now)

    play.relay.woke = gives_up  # type: ignore[method-assign, assignment]
    play.reactor.advance(5)
    assert play.over == [play.session]
    assert play.reactor.getDelayedCalls() == []


def test_a_session_without_legs_that_is_stopped() -> None:
    """As the service stops."""
    play = Rehearsal()
    play.relay.over = False
    play.client.goes()
    play.relay.over = True
    play.session.stop()
    assert play.over == [play.session]


def test_a_stop_that_closes_the_last_leg_ends_the_session_once() -> None:
    """Not once for the leg and once for the stop."""
    play = Rehearsal()
    play.relay.answers.append([])
    play.session.move(play.brokers[0], 1.0)
    play.relay.answers.append([Close(play.relay.client, How.LINGER), Wake(1.0)])
    play.session.stop()
    assert play.over == [play.session]
    assert [said[0] for said in play.said()] == ["opened", "leave", "stopped"]


def test_octets_of_brokers_that_were_left_still_count() -> None:
    """A session's sum does not begin anew with each broker."""
    play = Rehearsal()
    leg, first = play.open(0)
    first.says(b"12345")
    play.close(leg)
    assert play.session.info().from_brokers == 5
    _, second = play.open(1)
    second.says(b"678")
    assert play.session.info().from_brokers == 8


def test_a_leg_that_is_connecting_can_be_closed_beside_one_that_is_not() -> None:
    """Several may be under way at once; each attempt is its own."""
    play = Rehearsal()
    one, first = play.open(0)
    two, second = play.open(1)
    play.close(one)
    assert first.ends == ["flush"]
    assert second.ends == []
    assert two in play.runtime.protocols
    lone = Leg(Side.UPSTREAM, Limits())
    assert lone not in play.runtime.protocols
