"""A client that sends faster than it may is read from no faster, and loses nothing by it; or it is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.rates import Limit, Limiter, RateLimits, Rates, Scope
from stomprelay.relay.model.rules import Identity
from stomprelay.session.leg import Terms
from tests.playbook import SAY_HELLO, Cut, Playbook, listener, upstream
from tests.relay.failing import client_waits, found, movable, moves
from tests.relay.frames import receipt, send, tell
from tests.relay.several import fan_out

SEND = b"SEND\ndestination:/queue/a\n\n%d\0"


def sends(first: int, count: int) -> bytes:
    """SENDs with bodies that are numbered from `first` on."""
    return b"".join(SEND % (first + at) for at in range(count))


def limited(limiter: Limiter | None = None, *, lasting: bool = False, **settings: Any) -> Playbook:
    """A connected client, limited by its listener's rates or by this limiter. `lasting`: it survives its broker."""
    own = {key: settings.pop(key) for key in ("address", "cut", "passes") if key in settings}
    user = settings.pop("user", "")
    behind = movable() if lasting else upstream(groups=alone(Broker("tcp://a", "tcp:a:61613")))
    front = listener(behind, auth="people" if user else None)
    play = Playbook(front, limiter=limiter or Limiter(RateLimits(Rates(**settings))), **own)
    play.client_says(SAY_HELLO[b"1.2"])
    if user:
        play.client_is(Identity(user))
    play.broker_welcomes()
    play.client_reads()
    return play


def tally(
    play: Playbook, scope: Scope = Scope.LISTENER, limit: Limit = Limit.FRAMES
) -> tuple[int, int, float]:
    """How often it was paused and refused for this limit, and for how many seconds."""
    assert play.relay.limiter is not None
    found = play.relay.limiter.tallies[scope, limit]
    return found.paused, found.refused, round(found.seconds, 3)


def test_frames_go_on_as_there_are_tokens() -> None:
    """What came at once goes as one burst and then at the rate; the client is not read from meanwhile, then again."""
    with limited(frames=10, burst=0.5) as play:
        play.client_tells_broker(sends(0, 8), sends(0, 5))
        assert client_waits(play)
        play.client_says(sends(8, 1))
        play.time_passes(0.09)
        play.broker_gets(b"")
        play.time_passes(0.02)
        play.broker_gets(sends(5, 1))
        play.time_passes(0.4)
        play.broker_gets(sends(6, 3))
        play.time_passes(0.1)
        assert not client_waits(play)
        assert tally(play) == (4, 0, 0.4)
        play.both_stay()


def test_a_client_that_falls_silent_while_it_waits() -> None:
    """What was read is delivered when its heart-beat is missed, also what waits for a broker behind the rate."""
    limiter = Limiter(RateLimits(Rates(frames=10, burst=0.5)))
    with Playbook(listener(movable(), heart_beat=Terms(0, 1000)), limiter=limiter) as play:
        play.client_says(SAY_HELLO[b"1.2"].replace(b"\n\n", b"\nheart-beat:1000,0\n\n"))
        play.broker_welcomes()
        play.client_reads()
        play.client_tells_broker(sends(0, 8), sends(0, 5))
        play.broker_goes()
        for _ in range(26):
            play.time_passes(0.1)
        found(play)
        play.broker_gets(sends(5, 3))
        play.time_passes(0.5)
        play.client_gets_error(b"heart-beat missed")


def test_what_waits_when_a_quorum_cannot_be_reached() -> None:
    """It is counted, and the ERROR says that it may be lost."""
    limiter = Limiter(RateLimits(Rates(frames=10, burst=0.2)))
    play = Playbook(listener(fan_out(quorum=2)), limiter=limiter)
    play.client_says(SAY_HELLO[b"1.2"])
    for at in "ab":
        play.broker_welcomes(at=at)
    play.client_reads()
    play.client_says(send(b"0", receipt="r") + sends(1, 4))
    for at in "ab":
        assert play.broker_reads(at=at).count(b"\0") == 2
        play.broker_says(receipt("r") if at == "b" else tell(b"ERROR", **{"receipt-id": "r"}), at=at)
    play.time_passes(5)
    play.time_passes(5)
    assert b"what has no receipt may be lost" in play.client_reads()
    assert play.counters["possibly_lost"] >= 3


def test_a_commit_that_waits_while_its_client_leaves() -> None:
    """The SENDs of its transaction are counted when there is no more time."""
    limiter = Limiter(RateLimits(Rates(frames=1, burst=3)))
    play = Playbook(listener(movable(disconnect_timeout=0.5)), limiter=limiter)
    play.client_says(SAY_HELLO[b"1.2"])
    play.broker_welcomes()
    play.client_says(
        tell(b"BEGIN", transaction="t") + send(b"1", transaction="t") + send(b"2", transaction="t")
    )
    assert play.broker_reads().count(b"\0") == 3
    play.client_says(send(b"3", transaction="t") + tell(b"COMMIT", transaction="t"))
    play.client_goes()
    play.time_passes(0.5)
    play.time_passes(0.5)
    assert play.counters["possibly_lost"] == 3


def test_a_client_that_waits_when_its_broker_is_lost() -> None:
    """It is read from again, and keeps its rate; at the end of its session subscriptions need no tokens."""
    with limited(lasting=True, frames=10, burst=0.5) as play:
        play.client_tells_broker(sends(0, 8), sends(0, 5))
        play.broker_goes()
        assert client_waits(play)
        play.time_passes(0.1)
        assert not client_waits(play)
        play.client_says(sends(8, 1))
        found(play)
        play.broker_gets(sends(5, 1))
        play.time_passes(0.3)
        play.broker_gets(sends(6, 3))
        assert not client_waits(play)
    subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"
    with limited(lasting=True, frames=10, burst=0.3) as play:
        play.client_says(subscribe + sends(0, 2) + b"UNSUBSCRIBE\nid:1\nreceipt:r\n\n\0" + sends(2, 1))
        play.broker_gets(subscribe + sends(0, 2))
        play.operator_kills()
        moves(play)
        play.time_passes(0.3)
        play.broker_gets(sends(2, 1))
        assert play.client_reads().startswith(b"RECEIPT\nreceipt-id:r\n\n\0")


def test_all_is_told_apart_as_without_a_limit() -> None:
    """Cut into octets, or with more behind, the frames are the same."""
    for cut in Cut:
        with limited(frames=10, burst=0.5, cut=cut) as play:
            play.client_says(sends(0, 9))
            play.time_passes(2.0)
            play.broker_gets(sends(0, 9))


def test_sessions_of_one_user_share() -> None:
    """Each has its frames in the order in which they asked; a user of another name waits for nobody."""
    limiter = Limiter(RateLimits(user=Rates(frames=10, burst=0.1)))
    with (
        limited(limiter, user="ann") as first,
        limited(limiter, user="ann") as second,
        limited(limiter, user="bob") as other,
        limited(limiter) as nobody,
    ):
        first.client_says(sends(0, 4))
        second.client_says(sends(10, 4))
        other.client_says(sends(20, 1))
        nobody.client_says(sends(30, 40))
        first.broker_gets(sends(0, 1))
        other.broker_gets(sends(20, 1))
        nobody.broker_gets(sends(30, 40))
        for at in range(3):
            for play, number in ((first, at + 1), (second, at + 10)):
                for each in (first, second):
                    each.time_passes(0.1)
                play.broker_gets(sends(number, 1))
        second.time_passes(1.0)
        second.broker_gets(sends(13, 1))


def test_the_strictest_limit_counts() -> None:
    """A session waits until every bucket has tokens for it."""
    limiter = Limiter(RateLimits(Rates(frames=100), Rates(bytes=100), Rates(frames=2, burst=0.5)))
    with limited(limiter, address="192.0.2.1", user="ann") as play:
        play.client_tells_broker(sends(0, 3), sends(0, 1))
        play.time_passes(0.5)
        play.broker_gets(sends(1, 1))
        play.time_passes(0.5)
        play.broker_gets(sends(2, 1))


def test_a_session_that_goes_puts_back_what_it_did_not_use() -> None:
    """Who waits behind it, and comes later, does not pay for it."""
    limiter = Limiter(RateLimits(Rates(frames=1)))
    with limited(limiter) as first, limited(limiter) as second:
        first.client_tells_broker(sends(0, 2), sends(0, 1))
        first.relay_stops()
        first.client_gets_error(b"the relay is stopping")
        second.time_passes(1.0)
        second.client_tells_broker(sends(1, 1))


@pytest.mark.parametrize(
    ("rates", "message", "body"),
    [
        (Rates(frames=2.5, refuse=True), b"too many frames a second", b"is 2.5 a second"),
        (Rates(bytes=40, refuse=True), b"too many bytes a second", b"is 40 a second"),
    ],
    ids=["frames", "bytes"],
)
@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: str(scope.value))
def test_a_client_is_refused(rates: Rates, message: bytes, body: bytes, scope: Scope) -> None:
    """Where it is so configured, with an ERROR that names the limit; what was allowed went on before."""
    limiter = Limiter(RateLimits(**{scope.value: rates}))
    words = {
        Scope.LISTENER: b"of this listener",
        Scope.ADDRESS: b"for one address",
        Scope.USER: b"for one user",
    }
    with limited(limiter, address="192.0.2.1", user="ann") as play:
        play.client_tells_broker(sends(0, 1))
        play.client_says(sends(1, 9))
        assert (b"the limit %b %b" % (words[scope], body)) in play.client.written
        play.client_gets_error(message)
        play.broker_reads()
        limit = Limit.FRAMES if rates.frames else Limit.BYTES
        assert tally(play, scope, limit)[:2] == (0, 1)


@given(
    st.integers(1, 40),
    st.integers(50, 3000),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from([0.0, 0.01, 0.3, 2.0])), max_size=30),
)
def test_all_arrives(frames: int, size: int, lasting: bool, pieces: list[tuple[int, float]]) -> None:
    """However the stream is cut and whenever its pieces come, all of it arrives, in its order, and no faster."""
    limiter, stream, at, came = Limiter(RateLimits(Rates(frames=frames, bytes=size))), sends(0, 60), 0, b""
    with limited(limiter, lasting=lasting) as play:
        began = play.now
        for length, wait in [*pieces, (len(stream), 0.0), *[(0, 0.5)] * 200]:
            if stream[at : at + length]:
                play.client_says(stream[at : at + length])
                at += length
            play.time_passes(wait)
            came += play.broker_reads()
            allowed = 1 + play.now - began
            assert came.count(b"\0") <= frames * allowed + 1e-6
            assert len(came) <= size * allowed + 1e-6
        assert came == stream
        assert not client_waits(play)
