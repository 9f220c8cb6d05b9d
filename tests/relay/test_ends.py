"""Sessions that the relay ends, and clients that close their direction: all is delivered and answered first."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from stomprelay.relay.client.shutdown import ECHO
from stomprelay.relay.model.rules import AccessRule, AccessRules
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event, How
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits
from tests.playbook import Playbook, in_all_pairs, joined, listener, upstream
from tests.relay.failing import over, started
from tests.relay.frames import GOODBYE, copied, receipt, send, tell
from tests.relay.several import SOON, begun, both_get, fanned, group

GONE: Final = receipt("relay-session-goodbye")
SUBSCRIBE: Final = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
MESSAGE: Final = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\n\nhello\0"
RUBBISH: Final = b"RUBBISH\n\n\0"
BEHIND: Final = send(b"behind the frame at fault", receipt="never")
RULES: Final = AccessRules(
    (AccessRule(1, allow=True, send=("/queue/a",), subscribe=("/queue/a",)),), allow=False
)
LIMITS: Final = Limits(body=1000, headers=10)


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What brokers answer to DISCONNECT stands in the scripts."""
    monkeypatch.setattr(Playbook, "part", False)


def says(data: bytes) -> Callable[[Playbook], None]:
    """The client says this, which ends its session."""
    return lambda play: play.client_says(data)


WAYS: Final[dict[str, tuple[bytes, Callable[[Playbook], None]]]] = {
    "an unknown command": (b"unknown command", says(RUBBISH + BEHIND)),
    "a wrong body": (
        b"SUBSCRIBE must not have a body",
        says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\nx\0"),
    ),
    "a frame of the wrong side": (b"RECEIPT is not allowed here", says(receipt("1") + BEHIND)),
    "a body too large": (b"body too large", says(b"SEND\ndestination:/queue/a\n\n" + b"x" * 2000 + b"\0")),
    "too many headers": (
        b"too many headers",
        says(b"SEND\ndestination:/queue/a\n" + b"a:b\n" * 20 + b"\n\0"),
    ),
    "a rule": (b"not allowed", says(send(b"x", b"/queue/b") + BEHIND)),
    "an operator": (b"the session was ended", Playbook.operator_kills),
    "the relay's end": (b"the relay is stopping", Playbook.relay_begins_to_stop),
    "no heart-beats": (b"heart-beat missed", lambda play: play.time_passes(3)),
    "other rules": (
        b"a subscription is no longer allowed",
        lambda play: play.rules_change(AccessRules((), allow=False)),
    ),
}


def session(*, survives: bool, **settings: Any) -> Playbook:
    """A client that is subscribed, at a plain address or in front of a failover list, with the upstream's settings."""
    front: dict[str, Any] = {"rules": RULES, "limits": LIMITS, "heart_beat": Terms(0, 1000)}
    hello = b"heart-beat:1000,0\n"
    if survives:
        play = started(hello=hello, front=front, **settings)
    else:
        play = joined(b"1.2", b"1.2", hello=hello, over=lambda each: upstream(**settings), **front)
    play.client_tells_broker(SUBSCRIBE)
    return play


@pytest.mark.parametrize("survives", [False, True], ids=["a plain address", "failover"])
@pytest.mark.parametrize("way", WAYS)
def test_what_came_before_is_delivered(way: str, survives: bool) -> None:
    """Its broker confirms it, and RECEIPTs come before the ERROR; what is behind a fault is not carried."""
    message, end = WAYS[way]
    with session(survives=survives) as play:
        play.client_tells_broker(send(b"1", receipt="r") + send(b"2"))
        end(play)
        if way != "the relay's end":  # it has its own time, in which its consumers get what comes
            play.broker_says(MESSAGE)
        assert play.client.closed is None
        play.broker_says(receipt("r"))
        play.broker_gets(GOODBYE)
        play.client_gets(receipt("r"))
        play.broker_says(MESSAGE + GONE)
        play.client_gets_error(message)
        play.broker_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == 0


@pytest.mark.parametrize("survives", [False, True], ids=["a plain address", "failover"])
def test_an_end_that_is_not_confirmed(survives: bool) -> None:
    """Nobody waits longer than `disconnect_timeout`: then it counts, and the client and the log are told."""
    with session(survives=survives, disconnect_timeout=5.0) as play:
        play.client_said(send(b"1") + send(b"2", receipt="r") + send(b"3") + RUBBISH)
        for _ in range(50):
            play.time_passes(0.1)
            if play.brokers[-1].closed is None and not play.brokers[-1].accepted:
                play.broker_refuses()
        play.client_gets_error(b"unknown command", detail=b"what has no receipt may be lost")
        play.broker_reads()
        assert over(play)
        assert play.counters["possibly_lost"] == 3
        assert play.noted(Event.DISCONNECTED).endswith("unknown command; 3 SENDs may be lost")


def test_a_fan_out_ends() -> None:
    """Each broker confirms what it has, RECEIPTs are those of a quorum, also where a group's broker does not accept."""
    with fanned(quorum=2) as play:
        play.client_says(send(b"1", receipt="r") + RUBBISH)
        both_get(play, copied(1, send(b"1", receipt="r")))
        play.broker_says(receipt("r"), at="a")
        play.broker_tells_client(MESSAGE + receipt("r"), receipt("r"), at="b")
        both_get(play, GOODBYE)
        play.broker_says(GONE, at="a")
        assert play.client.closed is None
        play.broker_says(GONE, at="b")
        play.client_gets_error(b"unknown command")
        assert play.counters["possibly_lost"] == 0
    with fanned(quorum=2) as play:
        play.client_says(send(b"1", receipt="r"))
        both_get(play, copied(1, send(b"1", receipt="r")))
        play.broker_goes(at="a")
        play.time_passes(SOON)
        play.broker_is_asked(at="a")
        play.broker_says(b"ERROR\nmessage:no\n\n\0", at="a")
        play.broker_says(receipt("r"), at="b")
        play.broker_gets(GOODBYE, at="b")
        play.broker_says(GONE, at="b")
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"r")
        assert play.counters["possibly_lost"] == 1


def test_a_broker_that_confirms_too_late() -> None:
    """Its RECEIPT of DISCONNECT does not speak for a SEND whose own has not come (RabbitMQ): that may be lost."""
    with joined(b"1.2", b"1.2", product="rabbitmq", unacknowledged=1) as play:
        play.client_says(send(b"1", receipt="r") + send(b"2", receipt="s") + RUBBISH)
        play.broker_gets(send(b"1", receipt="r") + send(b"2", receipt="s"))
        play.broker_tells_client(receipt("r"))
        play.time_passes(2.5)
        play.broker_gets(GOODBYE)
        play.broker_says(GONE)
        assert b"; what has no receipt may be lost: 'RUBBISH'\0" in play.client_reads()
        assert play.counters["possibly_lost"] == 1


EOL = b"\n"


@in_all_pairs
def test_a_client_that_is_owed_nothing(client: bytes, broker: bytes) -> None:
    """Its broker is sent the DISCONNECT that it did not send; when that closes, all its answers have come."""
    with joined(client, broker) as play:
        play.client_tells_broker(send(b"x"))
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.broker_gets(GOODBYE)
        play.broker_tells_client(b"ERROR\nmessage:no such queue\n\n\0")
        play.broker_goes()
        play.client_is_closed(How.LINGER)
        assert play.noted(Event.VANISHED) == "client left, and has its answers; 1 SEND may be lost"
        assert play.counters["clients_vanished"] == 1


def test_a_subscribed_client() -> None:
    """Messages come until the time is over: nobody knows which is the last. Then its broker is left."""
    with joined(b"1.2", b"1.2", over=lambda each: upstream(disconnect_timeout=5.0)) as play:
        play.client_tells_broker(SUBSCRIBE)
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.time_passes(4.9)
        play.broker_tells_client(MESSAGE)
        play.both_stay()
        play.time_passes(0.1)
        play.broker_gets(GOODBYE)
        play.broker_goes()
        play.client_is_closed()
        assert play.counters["clients_vanished"] == 1


@pytest.mark.parametrize("goodbye", [b"", b"DISCONNECT\nreceipt:bye\n\n\0"])
def test_brokers_that_never_come_back(goodbye: bytes) -> None:
    """A client that reads on is not waited for without end: it is given up, and what it sent has its own time."""
    front = listener(Upstream("main", (group("main", "a", "b"),), confirm=False))
    with begun(front, brokers="a") as play:
        play.client_says(send(b"x", receipt="1") + goodbye)
        play.broker_reads(at="a")
        play.client_half_closes()
        play.client_gets(EOL)
        play.broker_goes(at="a")
        for _ in range(40):
            play.time_passes(0.5)
            if play.brokers[-1].closed is None and not play.brokers[-1].accepted:
                play.broker_refuses(at=play.brokers[-1].uri)
        play.client_is_closed(How.FLUSH)
        assert play.counters["possibly_lost"] == 1


def test_several_brokers() -> None:
    """The client gets its receipt when a quorum has what it sent; then each broker is left."""
    with fanned(2, quorum=2) as play:
        play.client_says(send(b"x", receipt="1"))
        both_get(play, copied(1, send(b"x", receipt="1")))
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.broker_says(receipt("1"), at="a")
        play.broker_tells_client(receipt("1"), at="b")
        both_get(play, GOODBYE)
        play.broker_goes(at="a")
        play.client_is_closed()
        play.broker_is_closed(at="b")


def test_a_group_that_refuses_the_relays_own_disconnect() -> None:
    """The ERROR does not name the relay's receipt."""
    with fanned(2, quorum=2) as play:
        play.part = False
        play.client_says(send(b"x", receipt="1"))
        both_get(play, copied(1, send(b"x", receipt="1")))
        play.client_half_closes()
        play.client_gets(EOL)
        play.time_passes(ECHO)
        play.broker_says(receipt("1"), at="a")
        play.broker_tells_client(receipt("1"), at="b")
        both_get(play, GOODBYE)
        play.broker_says(tell(b"ERROR", message="no", receipt_id="relay-session-goodbye"), at="a")
        play.time_passes(5.0)
        play.client_gets_error(b"the quorum cannot be reached", detail=b"it answered ERROR: no")
