"""Which brokers are sent a client's SENDs and subscriptions, and how many groups of an upstream it takes."""

from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.router import Member, Router
from stomprelay.relay.model.listener import Listener
from tests.playbook import Cut, in_all_cuts
from tests.relay.fanout.parts import MOST, links_of, target
from tests.relay.frames import copied, receipt, send, tell
from tests.relay.several import HERE, THERE, both_get, comes_back, fanned, plain, routed, two_upstreams


@in_all_cuts
def test_a_send_goes_to_all(cut: Cut) -> None:
    """Copies of one SEND carry the same id, others another one; the client gets its receipt once."""
    with fanned(quorum=2) as play:
        play.cut = cut
        play.client_says(send(b"1", receipt="r") + send(b"2"))
        both_get(play, copied(1, send(b"1", receipt="r")) + copied(2, send(b"2")))
        play.broker_says(receipt("r"), at="a")
        play.client_gets(b"")
        play.broker_tells_client(receipt("r"), at="b")


def test_queues_that_do_not_fan_out() -> None:
    """With `fanOutQueues=false` a SEND to a queue goes to the first group that has a broker, as it came."""
    with fanned(quorum=2, fan_out_queues=False) as play:
        play.client_says(send(b"1", b"/queue/a", receipt="q") + send(b"2", b"/topic/a", receipt="t"))
        one, two = send(b"1", b"/queue/a", receipt="q"), copied(1, send(b"2", b"/topic/a", receipt="t"))
        play.broker_gets(one + two, at="a")
        play.broker_gets(two, at="b")
        play.broker_tells_client(receipt("q", "t"), receipt("q"), at="a")
        play.broker_goes(at="a")
        play.client_tells_broker(send(b"3", b"/queue/a"), at="b")


def test_a_group_that_is_full() -> None:
    """It misses SENDs, which is counted and noted once; it keeps what it has, and the others miss nothing."""
    with fanned(quorum=1, resend_buffer=300) as play:
        play.broker_goes(at="a")
        wires = [copied(number + 1, send(b"x" * 150, receipt=str(number))) for number in range(4)]
        for number in range(4):
            play.client_tells_broker(send(b"x" * 150, receipt=str(number)), wires[number], at="b")
            play.broker_tells_client(receipt(str(number)), at="b")
        assert not play.client.paused
        assert play.counters["fanout_overflowed"] == 2
        assert sum("misses what is sent" in note.text for note in play.notes) == 1
        comes_back(play, "a")
        play.broker_gets(wires[0] + wires[1], at="a")
        play.broker_says(receipt("0", "1"), at="a")
        play.client_says(send(b"5"))
        both_get(play, copied(5, send(b"5")))


def test_an_id_that_is_open_elsewhere() -> None:
    """A subscription id is the client's, not an upstream's."""
    play = two_upstreams()
    play.client_says(tell(b"SUBSCRIBE", id="1", destination=HERE.decode()))
    play.client_says(tell(b"SUBSCRIBE", id="1", destination=THERE.decode(), receipt="r"))
    play.client_gets_error(b"SUBSCRIBE repeats the id of an open subscription", receipt=b"r")


def router(front: Listener) -> Router:
    """The router of a session that has not sent anything."""
    outbox = Outbox()
    return Router(front, outbox, lambda upstream: links_of(front, upstream, outbox))


def fill(member: Member, size: int) -> None:
    """So many bytes are unconfirmed."""
    if size:
        member.resender.unconfirmed.keep(b"x" * size, b"r", sent=True)


def test_many_destinations() -> None:
    """The number that are remembered is bounded."""
    each = router(routed(plain("main", "a"), plain("there", "b")))
    for number in range(10_000):
        assert each.way(b"/queue/there.%d" % number).target.upstream.name == "there"
    assert len(each._known) <= 4096


def test_the_primary() -> None:
    """The first group with room, where none has a broker."""
    each = target(3, 1)
    assert each.primary is each.members[0]
    fill(each.members[0], MOST)
    assert each.primary is each.members[1]
    each.members[1].given_up = True
    fill(each.members[2], MOST)
    assert each.primary is each.members[0]
