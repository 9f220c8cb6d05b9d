"""Heart-beats by a clock of plain numbers. Statements of STOMP 1.1 and 1.2, "Heart-beating"."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.session.leg import HeartBeat, Terms
from stomprelay.wire.errors import ProtocolError

START = 1000.0
EXACT = {"idle": 1.0, "tolerance": 1.0}


def agreed(ours: Terms, theirs: Terms) -> HeartBeat:
    """A leg on which both sides have spoken."""
    heartbeat = HeartBeat()
    heartbeat.agree(ours, theirs, START)
    return heartbeat


def intervals(ours: Terms, theirs: Terms) -> tuple[float, float]:
    """Seconds between our beats, and between theirs; infinity for never."""
    silent = agreed(Terms(ours.can_send, ours.wants, **EXACT), theirs)
    silent.reading = False
    send = silent.deadline - START
    silent.resumed(START)
    silent.sent_at = inf
    return send, silent.deadline - START


@pytest.mark.parametrize(
    ("value", "terms"),
    [
        (b"0,0", Terms(0, 0)),
        (b"10000,20000", Terms(10000, 20000)),
        (b"10000, 20000", Terms(10000, 20000)),
        (b" 1 , 2 ", Terms(1, 2)),
        (b"007,0", Terms(7, 0)),
        (b"99999999999999,99999999999999", Terms(99999999999999, 99999999999999)),
        (b"999999999999999,0", Terms(999999999999999, 0)),
    ],
    ids=repr,
)
def test_the_header_is_two_numbers(value: bytes, terms: Terms) -> None:
    """Milliseconds; a blank is taken, for clients send it."""
    assert Terms.parse(value) == terms


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b",", b"0", b"1000", b"1000,", b",1000", b"1,2,3", b"1000;1000", b"1000 1000"),
        *(b"-1,0", b"0,-1", b"+1,0", b"a,b", b"foo", b"1.5,0", b"1e3,0", b"0x1,0", b"1_000,0", b"1,\t2"),
        *(b"1\r,0", b"1,0\r", b"9999999999999999,0", b"1" * 5000 + b",0"),
        "\N{ARABIC-INDIC DIGIT ONE},1".encode(),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_any_other_header_is_refused(value: bytes) -> None:
    """With an error that shows what was said."""
    with pytest.raises(ProtocolError, match="malformed heart-beat header") as caught:
        Terms.parse(value)
    assert len(caught.value.detail) < 100


@pytest.mark.parametrize(
    ("cx", "cy", "sx", "sy", "from_client", "from_server"),
    [
        # Nobody, or only one of the two, wants or can.
        (0, 0, 0, 0, inf, inf),
        (1000, 0, 0, 0, inf, inf),
        (0, 1000, 0, 0, inf, inf),
        (0, 0, 1000, 0, inf, inf),
        (0, 0, 0, 1000, inf, inf),
        (1000, 1000, 0, 0, inf, inf),
        (0, 0, 1000, 1000, inf, inf),
        # One direction only.
        (1000, 0, 0, 1000, 1.0, inf),
        (0, 1000, 1000, 0, inf, 1.0),
        (1000, 0, 1000, 0, inf, inf),
        (0, 1000, 0, 1000, inf, inf),
        # The larger number counts.
        (1000, 2000, 3000, 4000, 4.0, 3.0),
        (4000, 3000, 2000, 1000, 4.0, 3.0),
        (10000, 10000, 10000, 10000, 10.0, 10.0),
        (1, 1, 1, 1, 0.001, 0.001),
        (500, 60000, 1000, 250, 0.5, 60.0),
    ],
)
def test_the_intervals(cx: int, cy: int, sx: int, sy: int, from_client: float, from_server: float) -> None:
    """0 when either side says 0, else the larger of what one can and the other wants; each direction alone."""
    client, server = Terms(cx, cy), Terms(sx, sy)
    assert intervals(client, server) == pytest.approx((from_client, from_server))
    assert intervals(server, client) == pytest.approx((from_server, from_client))


@pytest.mark.parametrize(("idle", "due"), [(0.1, 1.0), (0.5, 5.0), (0.9, 9.0), (1.0, 10.0)])
def test_how_early_we_beat_is_configured(idle: float, due: float) -> None:
    """`idle` is the share of the agreed interval; ours counts, not the peer's."""
    heartbeat = agreed(Terms(10000, 0, idle=idle), Terms(0, 10000, idle=0.3))
    assert heartbeat.deadline == pytest.approx(START + due)


def test_keeping_alive_never_slows_an_agreed_beat() -> None:
    """ActiveMQ may demand beats of a 1.0 connection: the shorter pause counts."""
    heartbeat = agreed(Terms(1000, 0), Terms(0, 1000))
    heartbeat.keep_alive(20, START)
    assert heartbeat.deadline == START + 0.5
    heartbeat = agreed(Terms(60000, 0), Terms(0, 60000))
    heartbeat.keep_alive(20, START)
    assert heartbeat.deadline == START + 20


_ms = st.one_of(st.just(0), st.integers(1, 120_000))
terms = st.builds(
    Terms, _ms, _ms, idle=st.sampled_from([0.1, 0.5, 0.9]), tolerance=st.sampled_from([1.5, 2.0, 3.0])
)


@given(client=terms, server=terms)
def test_two_peers_that_only_beat_live_for_ever(client: Terms, server: Terms) -> None:
    """Each looks only when its deadline has come; neither ever takes the other for dead, until one stops."""
    legs = {"client": agreed(client, server), "server": agreed(server, client)}
    other = {"client": "server", "server": "client"}
    now = START
    for _ in range(50):
        name = min(legs, key=lambda name: legs[name].deadline)
        if legs[name].deadline == inf:
            return
        now = legs[name].deadline
        assert not legs[name].dead(now)
        assert legs[name].due(now)
        legs[name].sent_at = now
        legs[other[name]].received_at = now
    expected = intervals(client, server)[1]
    if expected < inf:
        assert legs["client"].dead(legs["client"].received_at + expected * client.tolerance * 1.000001)
