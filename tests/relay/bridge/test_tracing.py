"""SENDs that the journal can distinguish, and MESSAGEs that do not show it."""

from typing import Any, Final

import pytest

from stomprelay.relay.bridge import TRACE
from stomprelay.wire.frame import Frame
from tests.playbook import VERSIONS, Cut, Playbook, in_all_cuts, in_all_pairs, joined
from tests.relay.bridge.test_bridge import PATH
from tests.relay.frames import tell

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
MESSAGE = b"MESSAGE\n%bsubscription:1\nmessage-id:m\ndestination:/queue/a\n\n%b\0"
TRACES: Final[dict[str, Any]] = {"trace": True}
"""A listener's settings."""


def traced(number: int, wire: bytes) -> bytes:
    """What brokers get of a SEND without a trace."""
    return wire.replace(b"SEND\n", b"SEND\nrelay-trace:relay-session-%d\n" % number, 1)


def taped(play: Playbook) -> list[Frame]:
    """The client's frames from now on, as the journal gets them."""
    tape: list[Any] = []
    play.relay.client.decoder.record(tape)
    return tape


def traces(tape: list[Frame]) -> list[tuple[bytes, bytes | None]]:
    """Each frame's command and trace."""
    return [(each.command, getattr(each, "trace", None)) for each in tape]


@in_all_cuts
@in_all_pairs
def test_each_send_has_its_own(client: bytes, broker: bytes, cut: Cut) -> None:
    """In front, plain in every version; everything else is sent as it would be, and the client's frames are marked."""
    frame = b"SEND\ndestination:/queue/a\n%b\n\nhello\0"
    with joined(client, broker, cut=cut, **TRACES) as play:
        tape = taped(play)
        play.client_says((frame % PATH[client]) * 2)
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
        play.client_says(frame % PATH[client])
        play.broker_gets(
            traced(1, frame % PATH[broker])
            + traced(2, frame % PATH[broker])
            + tell(b"SUBSCRIBE", id="1", destination="/queue/a")
            + traced(3, frame % PATH[broker])
        )
        assert traces(tape) == [
            (b"SEND", b"relay-session-1"),
            (b"SEND", b"relay-session-2"),
            (b"SUBSCRIBE", None),
            (b"SEND", b"relay-session-3"),
        ]
        assert all(frame.raw(TRACE) is None for frame in tape)


@in_all_cuts
@in_all_versions
def test_a_publishers_own_is_removed(version: bytes, cut: Cut) -> None:
    """However often it is set, wherever it stands, escapes and all; headers that look like it pass."""
    with joined(version, version, cut=cut, **TRACES) as play:
        like = b"relay-traces:1\nRelay-Trace:2\nx-relay-trace:3\nrelay-trac:e\n"
        play.client_says(
            b"SEND\nrelay-trace:forged\ndestination:/queue/a\nrelay-trace:\n"
            + like
            + b"relay-trace:a\\\\b\nrelay-trace:again\n\nrelay-trace:body\n\0"
        )
        play.broker_gets(
            b"SEND\nrelay-trace:relay-session-1\ndestination:/queue/a\n" + like + b"\nrelay-trace:body\n\0"
        )


def test_without_the_setting() -> None:
    """Nothing is added, no frame is marked, and a client's own stays; MESSAGEs lose it, by whatever way they came."""
    with joined(b"1.2", b"1.2") as play:
        tape = taped(play)
        mine = b"SEND\nrelay-trace:mine\ndestination:/queue/a\n\n1\0"
        play.client_tells_broker(mine)
        play.broker_tells_client(MESSAGE % (b"relay-trace:mine\n", b"1"), MESSAGE % (b"", b"1"))
        assert traces(tape) == [(b"SEND", None)]
