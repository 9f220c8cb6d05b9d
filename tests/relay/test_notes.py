"""Notes of sessions, for machines: the facts of notes, as scripts of what happens to a session."""

from stomprelay.session.effects import Event
from stomprelay.session.leg import Terms
from tests.playbook import Playbook, joined, upstream
from tests.relay.failing import started
from tests.relay.frames import receipt, send, tell
from tests.relay.several import fanned

BEAT = Terms(1000, 1000)
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/a\n\n%b\0"


def ends(play: Playbook) -> list[tuple[Event, object, bool]]:
    """The notes that tell of a session's end: what, by whom, and whether the log is spared."""
    return [(each.event, each.facts["end"], each.quiet) for each in play.notes if "end" in each.facts]


def answers(play: Playbook) -> list[object]:
    """The receipts that the relay gave in a broker's place."""
    assert all(note.quiet for note in play.notes if note.event is Event.ANSWERED)
    return [facts["receipt"] for facts in play.facts(Event.ANSWERED)]


def test_ends() -> None:
    """By a silence, which is noted though the client wanted the end; by a COMMIT, with a client and without one."""
    play = joined(
        b"1.2",
        b"1.2",
        over=lambda _: upstream(heart_beat=BEAT, close_on_error=False),
        welcome=b"heart-beat:1000,1000\n",
    )
    play.broker_says(b"ERROR\nmessage:odd\n\n\0")
    play.time_passes(3)
    (facts,) = play.facts(Event.DISCONNECTED)
    assert (facts["end"], facts["beats"], facts["broker"]) == ("broker", 1, "tcp://broker:61613")
    assert play.facts(Event.LOST) == []
    play = started()
    play.client_says(tell(b"BEGIN", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
    play.broker_goes()
    message = "the outcome of a transaction is unknown"
    assert play.facts(Event.ERROR) == [{"side": "client", "message": message}]
    assert ends(play) == [(Event.DISCONNECTED, "broker", True)]
    play = started()
    play.client_says(tell(b"BEGIN", transaction="t") + tell(b"COMMIT", transaction="t", receipt="c"))
    play.client_goes()
    play.broker_goes()
    assert play.facts(Event.ERROR) == [{"side": "broker", "message": message}]
    assert play.noted(Event.ERROR) == f"{message} (its broker was lost after COMMIT)"


def test_receipts_of_a_fan_out() -> None:
    """Those that no broker of a quorum gave: no broker is left that could, or a group gave up."""
    with fanned(quorum=1, options={"attempts": 0}) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
        play.broker_said(MESSAGE % b"x" + (MESSAGE % b"y").replace(b":k", b":l"), at="a")
        play.client_said(tell(b"ACK", id="k", receipt="1"))
        play.broker_goes(at="a")
        play.client_gets(receipt("1"))
        play.client_says(tell(b"ACK", id="l", receipt="2"))
        play.client_gets(receipt("2"))
        assert answers(play) == ["1", "2"]
        play.client_says(send(b"1", receipt="3"))
        play.broker_reads(at="b")
        play.broker_tells_client(receipt("3"), at="b")
        assert answers(play) == ["1", "2"]
