"""A STOMP 1.2 client over the relay's core."""

import threading

import pytest

from stomprelay.pipeline.stomp.client import Client, SessionLost
from stomprelay.pipeline.stomp.options import ConnectionOptions, GivenOptions
from tests.e2e.raw import Connection as Peer
from tests.e2e.raw import ScriptedBroker
from tests.pipeline.stomp.rig import accept, failover, message, told, until


def client(uri: str, **options: str) -> Client:
    """Make a client that was told this."""
    return ConnectionOptions.read(GivenOptions({"uri": uri, **options}), {}).client("test")


def connected(
    broker: ScriptedBroker, version: str = "1.2", uri: str = "failover:({})"
) -> tuple[Client, Peer]:
    """Connect a client to the broker, which speaks this version."""
    made = client(uri.format(f"tcp://127.0.0.1:{broker.port}"))
    found: list[Peer] = []
    said = f"CONNECTED\nversion:{version}\nserver:scripted\n\n\0".encode()
    thread = threading.Thread(target=lambda: found.append(accept(broker, said)))
    thread.start()
    made.connect(30)
    thread.join(30)
    return made, found[0]


def test_it_says_who_it_is(broker: ScriptedBroker) -> None:
    """Credentials, virtual host, client id: all that CONNECT has."""
    uri = f"tcp://127.0.0.1:{broker.port}"
    with client(uri, login="guest", password="s3cret", host="/v", clientId="me") as made:
        threading.Thread(target=made.connect, args=(30,)).start()
        peer = broker.accept()
        lines = peer.connected().split(b"\n")
        for line in (b"login:guest", b"passcode:s3cret", b"host:/v", b"client-id:me"):
            assert line in lines
        until(lambda: made.relay_thread.has_brokers)
    assert "s3cret" not in repr(made)


def test_messages_are_acknowledged_together(broker: ScriptedBroker) -> None:
    """A subscription has its headers, and an ACK the last delivery's name."""
    made, peer = connected(broker)
    with made:
        made.subscribe(b"0", "/queue/ä:1".encode(), {b"selector": b"a = 'x\n'"})
        frame = peer.frame()
        for line in ("destination:/queue/ä\\c1", "selector:a = 'x\\n'", "ack:client"):
            assert f"{line}\n".encode() in frame
        peer.write(message(1) + message(2))
        assert [(each.command, each.payload) for each in told(made, 2)] == [(b"MESSAGE", b"hello")] * 2
        made.acknowledge({b"0": b"a2"})
        assert peer.frame() == b"ACK\nid:a2\n\n\0"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_older_brokers_are_spoken_to_in_their_own_way(broker: ScriptedBroker, version: str) -> None:
    """The core bridges: whoever uses the client knows 1.2 alone."""
    made, peer = connected(broker, version)
    with made:
        made.subscribe(b"0", b"/queue/a", {})
        peer.frame()
        peer.write(b"MESSAGE\nsubscription:0\nmessage-id:m1\ndestination:/queue/a\n\nhello\0")
        (frame,) = told(made, 1)
        name = frame.raw(b"ack")
        assert name
        made.acknowledge({b"0": name})
        assert b"message-id:m1\n" in peer.frame()


def test_a_goodbye_is_confirmed(broker: ScriptedBroker) -> None:
    """With the receipts that came on the way to it."""
    made, peer = connected(broker)
    with made:
        made.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")

        def answer() -> None:
            for receipt in (b"1", b"bye"):
                peer.frame()
                peer.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)

        answers = threading.Thread(target=answer)
        answers.start()
        assert made.disconnect(30) == [b"1"]
        answers.join(30)


def test_an_error_of_the_broker_is_the_end(broker: ScriptedBroker) -> None:
    """In the broker's given."""
    made, peer = connected(broker)
    with made:
        made.send(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
        peer.frame()
        peer.write(b"ERROR\nmessage:not allowed\nreceipt-id:1\n\nno access to /queue/a\0")
        with pytest.raises(SessionLost, match="not allowed: no access to /queue/a, about receipt 1"):
            told(made, 1)


def test_a_refused_login_is_told_without_the_passcode(broker: ScriptedBroker) -> None:
    """It names the broker and what it said."""
    made = client(failover(broker), login="guest", password="s3cret")
    refused = b"ERROR\nmessage:Bad CONNECT\n\nAccess refused\0"
    answer = threading.Thread(target=lambda: accept(broker, refused).close())
    answer.start()
    said = rf"tcp://127.0.0.1:{broker.port}: Bad CONNECT: Access ref"
    with made, pytest.raises(SessionLost, match=said) as caught:
        made.connect(30)
    answer.join(30)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "patience", "said"),
    [
        ("failover:(tcp://127.0.0.1:1)", 0.3, r"no broker within 0\.3 s.*refused"),
        ("tcp://127.0.0.1:1", 30, r"broker not available.*refused"),
    ],
)
def test_nobody_there_is_told_in_time(uri: str, patience: float, said: str) -> None:
    """A list is searched without end, and the patience of whoever waits has one."""
    with client(uri) as made, pytest.raises(SessionLost, match=said):
        made.connect(patience)


def test_a_plain_address_ends_with_its_broker(broker: ScriptedBroker) -> None:
    """And says what to have for more."""
    made, peer = connected(broker, uri="{}")
    with made:
        peer.close()
        with pytest.raises(SessionLost, match="connection to the broker was lost"):
            until(lambda: bool(list(made.frames(0.1))))


def test_a_goodbye_that_nobody_answers_has_its_time(broker: ScriptedBroker) -> None:
    """Whoever waits is told."""
    made, _ = connected(broker)
    with made, pytest.raises(SessionLost, match=r"DISCONNECT was not confirmed within 0\.2 s"):
        made.disconnect(0.2)
