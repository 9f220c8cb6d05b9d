"""A move of destinations from OLD (broker a) to NEW (broker b), phase by phase, and back."""

from typing import Any

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.move import Move, Phase
from stomprelay.relay.model.upstream import Upstream
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.frames import message, receipt, send, tell
from tests.relay.several import begun, lasting, plain

AT_A = tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
OVER = tell(b"UNSUBSCRIBE", id="1")


class Moving:
    """A session, and the move of what begins with `/queue/a`."""

    def __init__(
        self,
        phase: str = "off",
        client: bytes = b"1.2",
        new: Upstream | None = None,
        old: Upstream | None = None,
        **settings: Any,
    ) -> None:
        self.move = Move("orders", Phase(phase))
        route = Route(Match.PREFIX, "/queue/a", new or lasting("new", "b"), self.move)
        self.front: Listener = listener(old or lasting("old", "a"), routes=(route,), **settings)
        self.play = begun(self.front, client, "a")

    def to(self, phase: str) -> None:
        """An operator begins this phase, and the session is told."""
        self.move.enter(Phase(phase), 1.0)
        self.tell()

    def tell(self) -> None:
        """The session is told to follow."""
        self.play._perform(self.play.relay.handle(inputs.Phased(), self.play.now))

    @property
    def standing(self) -> tuple[bool, str] | None:
        """Whether the session has followed, and why it stays at OLD."""
        return self.play.relay.standing(self.move)


def copy(number: int, body: bytes = b"") -> bytes:
    """What NEW gets of a SEND in the phase `shadow`."""
    return send(body).replace(b"SEND\n", b"SEND\nrelay-copy:relay-session-%d\n" % number)


def test_all_phases() -> None:
    """A consumer that sends, from `off` to `done`: nothing is asked of the client."""
    moving = Moving()
    with moving.play as play:
        play.client_tells_broker(AT_A, at="a")
        play.client_tells_broker(send(b"0"), at="a")
        moving.to("shadow")
        play.client_said(b"")
        play.client_tells_broker(send(b"1"), at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(copy(1, b"1"), at="b")
        moving.to("both")
        play.broker_gets(AT_A + b"\n", at="b")
        play.client_tells_broker(send(b"2"), at="a")
        moving.to("new")
        play.client_tells_broker(send(b"3"), at="b")
        play.broker_tells_client(message(b"3", message_id="b1", ack="b1"), at="b")
        play.broker_tells_client(message(b"2", message_id="a1", ack="a1"), at="a")
        moving.to("done")
        assert moving.standing == (False, "")  # the client owes OLD an ACK
        play.client_tells_broker(tell(b"ACK", id="a1"), at="a")
        moving.tell()
        play.broker_gets(OVER + b"\n", at="a")
        assert moving.standing == (True, "")
        play.client_tells_broker(tell(b"ACK", id="b1"), at="b")
        play.client_tells_broker(send(b"4"), at="b")
