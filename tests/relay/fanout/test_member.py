"""What waits for one broker, and does not hold up another."""

from stomprelay.relay import inputs
from stomprelay.relay.model.rates import Limiter, RateLimits, Rates
from tests.playbook import Playbook, listener
from tests.relay.failing import client_waits as waits
from tests.relay.fanout.parts import member_of
from tests.relay.frames import copied, send, tell
from tests.relay.several import begun, comes_back, fan_out, fanned, group, lasting, routed


def test_a_blocked_broker_of_a_route() -> None:
    """Only what is for it waits; when that is too much, the client is not read from."""
    with begun(routed(lasting("main", "a"), lasting("there", "b", resend_buffer=300)), b"1.2", "a") as play:
        there = send(b"x" * 200, b"/queue/there.1")
        play.client_says(there)
        play.broker_welcomes(at="b")
        play.broker_gets(there, at="b")
        play.broker_is_blocked(at="b")
        play.client_tells_broker(there + send(b"1"), send(b"1"), at="a")
        assert not waits(play)
        play.client_says(there)
        assert waits(play)
        play.broker_is_unblocked(at="b")
        assert not waits(play)
        play.broker_gets(there + there, at="b")


def test_a_flood_of_other_frames() -> None:
    """A broker that takes nothing at all is left before what waits for it grows without bound."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_is_blocked(at="a")
        for number in range(40):
            play.client_says(tell(b"SUBSCRIBE", id=f"{number}", destination="/topic/a"))
            play.client_says(tell(b"UNSUBSCRIBE", id=f"{number}"))
            assert play.broker_reads(at="b")
        assert "broker a is left: it takes nothing any more" in [note.text for note in play.notes]
        assert member_of(play, 0).size == 0
        assert play.counters["brokers_lost"] == 1
        comes_back(play, "a")
        play.broker_gets(b"", at="a")


def moving(quorum: int = 1, **settings: float) -> Playbook:
    """A client of two groups, the first of which has two brokers."""
    main = fan_out(2, quorum=quorum)
    groups = (group("main-1", "a", "c"), main.groups[1])
    return begun(listener(type(main)("main", groups, quorum=quorum, **settings)))  # type: ignore[arg-type]


def leaves(play: Playbook, within: float = 5.0, *, may_stay: bool = False) -> None:
    """The session is told to leave broker a for c, which accepts it."""
    one, other = play.relay.listener.upstream.groups[0].brokers
    one.health.paused = True
    play._perform(play.relay.handle(inputs.Leave(one, within, other, may_stay), play.now))
    play.broker_welcomes(at="c")


def test_a_move_that_comes_to_nothing() -> None:
    """What waited for the broker that the session stays at is sent to it, also if the client's rate is limited."""
    with moving(quorum=2) as play:
        play.client_says(send(b"1", receipt="r"))
        assert play.broker_reads(at="a") == play.broker_reads(at="b")
        leaves(play, 3.0, may_stay=True)
        play.client_says(send(b"2"))
        play.broker_gets(b"", at="a")
        play.time_passes(3.1)
        play.broker_gets(copied(2, send(b"2")), at="a")
        play.broker_gets(copied(2, send(b"2")), at="b")
    with moving(quorum=2) as play:
        play.relay.limiter = Limiter(RateLimits(Rates(frames=100)))
        play._perform(play.relay.handle(inputs.Limited(None), play.now))
        play.client_says(send(b"1", receipt="r"))
        assert play.broker_reads(at="a") == play.broker_reads(at="b")
        leaves(play, 30.0)
        play.client_says(send(b"2"))
        play.broker_gets(b"", at="a")
        play.broker_goes(at="c")
        play.broker_gets(copied(2, send(b"2")), at="a")
        play.broker_gets(copied(2, send(b"2")), at="b")
