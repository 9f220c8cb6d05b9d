"""What of a session is recorded, in which context, and in which order."""

from pathlib import Path

import pytest
from twisted.internet import error

from stomprelay.journal.settings import ALL, WhenFull
from stomprelay.service.journalled import Journalled
from stomprelay.service.relaying import Relaying
from stomprelay.session.leg import Leg
from tests.service.diary import Diary, Told
from tests.service.house import CONNECT, CONNECTED, MESSAGE, SEND, House, Wire, failover, listener, movable

NAMED = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:geheim\nclient-id:erp\n\n\0"


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    """A relay in front of one broker that keeps a journal with whole bodies."""
    return Diary(tmp_path, bodies=ALL)


def brief(told: list[Told]) -> list[tuple[str, ...]]:
    """Whose frames, and the commands of them; or which event."""
    return [
        (each.event,)
        if each.event
        else (each.context.side, *(frame.partition(b"\n")[0].decode() for frame in each.frames))
        for each in told
    ]


def test_no_journal_no_cost(tmp_path: Path) -> None:
    """Without one, sessions are what they were, and no decoder has a tape."""
    house = House()
    client, _ = house.session()
    (session,) = house.service.receptions["public"].sessions
    assert type(session) is Relaying
    assert client.protocol.leg.decoder._recording is None
    assert house.service.journal is None


def test_a_session(diary: Diary) -> None:
    """Frames as they came, each leg's counted; what was learnt from them comes behind them."""
    client, broker = diary.session()
    client.says(SEND)
    broker.says(MESSAGE + MESSAGE)
    client.says(b"DISCONNECT\nreceipt:bye\n\n\0")
    broker.says(b"RECEIPT\nreceipt-id:bye\n\n\0")
    client.goes()
    found = diary.read()
    assert brief(found) == [
        ("client", "CONNECT"),
        ("broker", "CONNECTED"),
        ("connected",),
        ("client", "SEND"),
        ("broker", "MESSAGE", "MESSAGE"),
        ("client", "DISCONNECT"),
        ("broker", "RECEIPT"),
        ("disconnected",),
    ]
    assert found[3].frames == (SEND.removesuffix(b"\0"),)
    assert [each.number for each in found if each.context.side == "broker"] == [0, 1, 3]
    assert [each.number for each in found if each.context.side == "client"] == [0, 1, 2]


def test_contexts(diary: Diary) -> None:
    """Who, where, and in which version; the client's name is known with its CONNECT."""
    client = diary.client()
    client.says(NAMED)
    broker = diary.broker()
    broker.says(CONNECTED.replace(b"1.2", b"1.1"))
    connect, connected, event = diary.read()
    name = f"{diary.service._prefix}-1"
    assert connect.context == ("public", name, "192.0.2.7:4711", "erp", "client", "", "", "1.2")
    place = ("broker", "main", "tcp://192.0.2.1:61613")
    assert connected.context == ("public", name, "192.0.2.7:4711", "erp", *place, "1.1")
    assert event.context == ("public", name, "192.0.2.7:4711", "erp", "", "", "", "")


@pytest.mark.parametrize(
    ("said", "client"),
    [
        (NAMED.replace(b"client-id:erp\n", b""), "guest"),
        (NAMED.replace(b"client-id", b"x"), "guest"),
        (NAMED.replace(b"client-id:erp", b"client-id: erp "), "erp"),
        (CONNECT, "192.0.2.7"),
        (NAMED.replace(b"erp", b"\xff" * 2000), "\ufffd" * 1000),
        (NAMED.replace(b"erp", b"first\nclient-id:second"), "first"),
    ],
)
def test_who_a_client_is(diary: Diary, said: bytes, client: str) -> None:
    """Its client-id, else its login, else its host; cut where it is endless."""
    diary.client().says(said)
    assert diary.read()[0].context.client == client


def test_before_connect_nobody_knows_who_it_is(diary: Diary) -> None:
    """A client that never says it has events without a name, and no version."""
    client = diary.client()
    client.goes()
    foreign = diary.client()
    foreign.says(b"GET / HTTP/1.1\r\n\r\n")
    found = diary.read()
    assert brief(found) == [("vanished",), ("foreign",)]
    assert {each.context.client for each in found} == {""}
    assert found[0].context.peer == "192.0.2.7:4711"


def test_a_client_that_no_version_suits(diary: Diary) -> None:
    """Its CONNECT is recorded, then the error."""
    client = diary.client()
    client.says(NAMED.replace(b"1.2", b"9"))
    frames, event = diary.read()[:2]
    assert frames.context[3:] == ("erp", "client", "", "", "")
    assert (event.event, event.context.client) == ("error", "erp")


def test_frames_that_waited_for_a_broker(tmp_path: Path) -> None:
    """They are recorded when they go on, which something on another leg may bring about."""
    diary = Diary(tmp_path, listener(upstream=movable(failover(1, 2))))
    client, one = diary.session()
    one.goes(error.ConnectionLost())
    diary.read()
    client.says(SEND)
    assert diary.read() == []
    two = diary.broker()
    two.says(CONNECTED)
    assert SEND in two.written()
    found = brief(diary.read())
    assert ("client", "SEND") in found
    assert found.index(("broker", "CONNECTED")) < found.index(("recovered",))


def test_the_broker_that_a_leg_leads_to(tmp_path: Path) -> None:
    """After a failover it is another one, of which frames are counted from the start."""
    diary = Diary(tmp_path, listener(upstream=movable(failover(1, 2), failover(3))))
    client = diary.client()
    client.says(CONNECT)
    wires = [diary.broker(), diary.broker()]
    for wire in wires:
        wire.says(CONNECTED)
    wires[1].goes(error.ConnectionLost())
    diary.broker().says(CONNECTED)
    brokers = [each.context.broker for each in diary.read() if each.context.side == "broker"]
    assert sorted(brokers) == [f"tcp://192.0.2.{number}:61613" for number in (1, 2, 3)]


def test_what_comes_with_the_end_is_recorded(diary: Diary) -> None:
    """The last frames of a leg that is closed for them."""
    client, broker = diary.session()
    diary.read()
    client.says(SEND + b"NONSENSE\n\n\0")
    assert brief(diary.read())[:2] == [("client", "SEND"), ("error",)]
    broker.goes()
    client.goes()
    assert diary.service.sessions == 0
    assert diary.read() == []


def test_secrets(tmp_path: Path) -> None:
    """In what waits to be written there is neither passcode nor a header that is to be left out, nor its octets."""
    diary = Diary(tmp_path, bodies=ALL, redact=("token",))
    client = diary.client()
    for octet in NAMED:
        client.says(bytes([octet]))
    broker = diary.broker()
    broker.says(CONNECTED)
    said = SEND.replace(b"\n\n", b"\ntoken:geheim\nToken: geheim\n\n")
    client.says(said)
    for octet in said:
        client.says(bytes([octet]))
    broker.says(MESSAGE.replace(b"\n\n", b"\ntoken:geheim\n\n"))
    batch = diary.journal._spool.take(1 << 30)
    assert batch is not None
    assert batch.frames == 5
    assert b"geheim" not in batch.data


def pressed(diary: Diary) -> list[Told]:
    """The events of back-pressure since the last look."""
    return [each for each in diary.read() if each.event.startswith("back-pressure")]


def test_back_pressure(diary: Diary) -> None:
    """When it begins; and that it is over, once it is for a second, with all the time that it took."""
    client, _ = diary.session()
    client.fills()
    (held,) = pressed(diary)
    assert (held.event, held.facts) == ("back-pressure on", {"side": "broker", "reason": "pressure"})
    assert held.context.session
    for _ in range(3):
        diary.reactor.advance(0.5)
        client.drains()
        diary.reactor.advance(0.1)
        client.fills()
    assert pressed(diary) == []
    diary.reactor.advance(10)
    client.drains()
    diary.reactor.advance(0.9)
    assert pressed(diary) == []
    diary.reactor.advance(0.1)
    (released,) = pressed(diary)
    assert released.event == "back-pressure off"
    assert released.facts == {"side": "broker", "seconds": pytest.approx(11.5)}
    client.fills()
    assert len(pressed(diary)) == 1


def test_back_pressure_ends_with_its_leg(diary: Diary) -> None:
    """No timer is left."""
    client, broker = diary.session()
    client.fills()
    diary.reactor.advance(2)
    client.goes()
    broker.goes()
    assert [each.event for each in pressed(diary)] == ["back-pressure on", "back-pressure off"]
    assert diary.service.sessions == 0
    assert diary.reactor.getDelayedCalls() == []


def test_a_client_that_waits_for_its_broker_is_not_pressed(diary: Diary) -> None:
    """That it is not read from meanwhile is how it always is."""
    client = diary.client()
    client.says(CONNECT)
    diary.broker().says(CONNECTED)
    diary.reactor.advance(5)
    assert pressed(diary) == []


def test_a_client_that_says_too_much_without_a_broker(tmp_path: Path) -> None:
    """Here it is the relay that asks."""
    diary = Diary(tmp_path, listener(upstream=movable(failover(1, 2), resend_buffer=10)))
    client, broker = diary.session()
    broker.goes(error.ConnectionLost())
    client.says(SEND)
    (held,) = pressed(diary)
    assert held.facts == {"side": "client", "reason": "relay"}
    diary.broker().says(CONNECTED)
    diary.reactor.advance(1)
    (released,) = pressed(diary)
    assert released.facts["side"] == "client"


def full(tmp_path: Path, *listeners: object) -> Diary:
    """A relay whose journal takes little and blocks."""
    return Diary(tmp_path, *listeners, queue=3000, when_full=WhenFull.BLOCK)  # type: ignore[arg-type]


def fill(diary: Diary, client: Wire) -> None:
    """A client says so much that the journal has no room."""
    while not diary.journal.full:
        client.says(SEND)
    assert not client.reading


def test_everybody_is_held_while_the_journal_is_full(tmp_path: Path) -> None:
    """Clients and brokers, and those that come now as soon as they are connected; nothing is lost."""
    diary = full(tmp_path)
    client, broker = diary.session()
    other = diary.session()
    fill(diary, client)
    assert not any(wire.reading for wire in (client, broker, *other))
    late = diary.session()
    assert not any(wire.reading for wire in late)
    silent = diary.client()
    assert silent.reading
    assert diary.journal.dropped.blocks == 0
    found = diary.read()
    assert [each.facts for each in found if each.event == "back-pressure on"] == [
        {"side": "", "reason": "journal"}
    ]
    diary.journal._release()
    assert all(wire.reading for wire in (client, broker, *other, *late))
    assert [each.event for each in diary.read()] == ["back-pressure off"]


def test_beats_go_on_while_the_journal_is_full(tmp_path: Path) -> None:
    """And nobody is taken for silent that is not read from."""
    diary = full(tmp_path)
    client = diary.client()
    client.says(CONNECT.replace(b"\n\n", b"\nheart-beat:1000,1000\n\n"))
    broker = diary.broker()
    broker.says(CONNECTED.replace(b"\n\n", b"\nheart-beat:1000,1000\n\n"))
    fill(diary, client)
    client.written()
    broker.written()
    diary.reactor.pump([0.5] * 60)
    assert client.ends == broker.ends == []
    assert client.written().count(b"\n") >= 20
    assert broker.written().count(b"\n") >= 1


def test_who_said_goodbye_hears_it_confirmed(tmp_path: Path) -> None:
    """Its broker is read from, full or not."""
    diary = full(tmp_path)
    client, broker = diary.session()
    other, _ = diary.session()
    client.says(b"DISCONNECT\nreceipt:bye\n\n\0")
    fill(diary, other)
    assert broker.reading
    broker.says(b"RECEIPT\nreceipt-id:bye\n\n\0")
    assert client.written().endswith(b"RECEIPT\nreceipt-id:bye\n\n\0")


def test_other_reasons_hold_on(tmp_path: Path) -> None:
    """Room in the journal is no room in a transport."""
    diary = full(tmp_path)
    client, broker = diary.session()
    broker.fills()
    client.protocol.valve.hold(4)
    diary.journal._hold()
    diary.journal._release()
    assert not client.reading
    broker.drains()
    assert client.reading


def test_sessions_leave_nothing(tmp_path: Path) -> None:
    """Whatever ended them."""
    diary = Diary(tmp_path)
    for number in range(20):
        client, broker = diary.session()
        client.says(SEND)
        broker.says(MESSAGE)
        first, second = (client, broker) if number % 2 else (broker, client)
        first.goes()
        second.goes()
        diary.read()
    assert diary.service.sessions == 0
    assert diary.reactor.getDelayedCalls() == []
    assert diary.service.stage.lines == {}


def test_a_session_has_no_memory_of_legs_that_are_gone(tmp_path: Path) -> None:
    """A session that survives many brokers."""
    diary = Diary(tmp_path, listener(upstream=movable(failover(1, 2))))
    _, broker = diary.session()
    for _ in range(10):
        broker.goes(error.ConnectionLost())
        while not diary.reactor.tcpClients:
            diary.reactor.advance(1)
        broker = diary.broker()
        broker.says(CONNECTED)
    (session,) = diary.service.receptions["public"].sessions
    assert isinstance(session, Journalled)
    legs: set[Leg] = {tape.leg for tape in session._tapes}
    assert len(legs) == 2
    assert len(session._places) == 1
