"""Frames of several brokers, as one stream for the client."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.disconnect import Disconnect
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.quorum import Quorum
from stomprelay.relay.fanout.router import Target
from stomprelay.relay.forward import NO_MORE, NOTHING, TURN, Joiner
from stomprelay.relay.notes import outvoted
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import ERROR, MESSAGE, MESSAGE_HEADER, RECEIPT, RECEIPT_ID
from stomprelay.wire.run import Run

_SHOWN: Final = 200
"""How many bytes are quoted of an ERROR's message."""


class Merge:
    """Passes on MESSAGEs, the RECEIPTs of a quorum, and an ERROR when no group can go on without it. `erred`: the last
    frame that passed was an ERROR. `ends`: the relay ends the session, and no MESSAGE passes.
    """

    __slots__ = (
        "_client",
        "_counter",
        "_disconnect",
        "_joiner",
        "_outbox",
        "_quorum",
        "_session",
        "ends",
        "erred",
    )

    def __init__(
        self,
        client: Leg,
        session: Session,
        outbox: Outbox,
        quorum: Quorum,
        disconnect: Disconnect,
        counter: DestinationCounter | None = None,
    ) -> None:
        self._client = client
        self._counter = counter
        self._session = session
        self._outbox = outbox
        self._quorum = quorum
        self._disconnect = disconnect
        self._joiner = Joiner()
        self.erred = self.ends = False

    def forward(self, target: Target, member: Member, now: float) -> None:
        """Carry a turn's worth of a broker's frames as one `Send`. Raises `StompError` for what cannot be passed on."""
        connection, session, joiner = member.link.connection, member.session, self._joiner
        bridge, leg = connection.bridges.to_client, connection.leg
        early = (
            self._client.state is State.CONNECTING
        )  # nothing was asked for yet, and only an ERROR may come

        def new_head(frame: Frame) -> bytes | None:
            if early and frame.command is not ERROR:
                return NOTHING
            if frame.command is MESSAGE:
                if self.ends:
                    return NOTHING
                if member.erred:
                    self.erred = False  # it goes on
                    member.erred = False
                return bridge.head(frame, session)
            if frame.command is RECEIPT:
                if self._receipt_passes(target, member, frame, leg):
                    return bridge.head(frame, session)
                return NO_MORE if member.link.ended else NOTHING
            passes = self._error_passes(target, member, frame, leg, now)
            if member.link.done or member.given_up:
                return NO_MORE
            return self._error_head(member, frame, leg, bridge) if passes else NOTHING

        try:
            frames: Iterator[Frame | Run] = islice(leg.decoder.frames(), TURN)
            if self._counter is not None:
                frames = self._counter.counting(frames, self._session, leg.dialect)
            joiner.carry(frames, new_head)
        finally:
            self._session.broker_sent(joiner.frames)
            connection.received_frames += joiner.frames
            data = joiner.take(trails=leg.decoder.trails)
            if data:
                self._outbox.send(self._client, data, now)
            self._quorum.confirmed_late(member, now)

    def _receipt_passes(self, target: Target, member: Member, frame: Frame, leg: Leg) -> bool:
        receipt = member.session.asked(frame.header(RECEIPT_ID, leg.dialect))
        member.session.received(receipt)
        if receipt is None:
            return not target.fans
        member.confirmed()
        member.link.received_receipt(receipt)
        if self._disconnect.answered_by(member, receipt):
            confirmed = self._disconnect.confirmed(member, receipt)
            return confirmed and not (self.ends or self._disconnect.is_ours(receipt))
        if not member.resender.received(receipt):
            return False
        confirmation = self._quorum.confirmations.confirm(member, receipt)
        return confirmation is not None and not confirmation.hidden

    def _error_passes(self, target: Target, member: Member, frame: Frame, leg: Leg, now: float) -> bool:
        """Returns whether an ERROR passes. Raises `StompError` where the session cannot go on with it."""
        counters = self._session.counters
        receipt = member.session.asked(frame.header(RECEIPT_ID, leg.dialect))
        member.session.received(receipt)
        asked = receipt is not None and self._quorum.confirmations.awaited(member, receipt) is not None
        if target.upstream.movable and member.link.connection.product.leaves(frame):
            counters["errors_withheld"] += 1  # the broker goes away, and the client need not know
            if receipt is not None:
                member.link.broker_leaves()
            return False
        if receipt is not None:
            member.resender.refused(receipt)
        else:
            member.resender.unconfirmed.committing.erred()
        if not target.fans:
            self.erred = True
            member.erred = True
            counters["errors_passed"] += 1
            return True
        text = (frame.header(MESSAGE_HEADER, leg.dialect) or b"")[:_SHOWN].decode("utf-8", "backslashreplace")
        reason = f"it answered ERROR: {text}" if text else "it answered ERROR"
        if receipt is not None and asked:
            member.reason = reason
            counters["fanout_errors"] += 1
            self._outbox.put(outvoted(member.link.group, target.upstream, reason))
            self._quorum.refused(member, receipt, now)
            return False
        member.erred = True
        if all(each.erred for each in target.live):
            self.erred = True
            counters["errors_passed"] += 1
            return True
        counters["fanout_errors"] += 1
        self._quorum.fault(target, member, reason, now)
        return False

    def _error_head(self, member: Member, frame: Frame, leg: Leg, bridge: Bridge) -> bytes | None:
        """Return the head of an ERROR for the client, without a receipt-id that it never gave."""
        receipt = frame.header(RECEIPT_ID, leg.dialect)
        if member.resender.unconfirmed.is_ours(receipt) or self._disconnect.is_ours(receipt):
            return bridge.without(frame, RECEIPT_ID, member.session)
        return bridge.head(frame, member.session)
