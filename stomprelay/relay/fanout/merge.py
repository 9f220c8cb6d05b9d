"""Frames of several brokers, as one stream for the client."""

from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.disconnect import Disconnect
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.quorum import Quorum
from stomprelay.relay.fanout.router import Target
from stomprelay.relay.model.profile import leaves
from stomprelay.relay.notes import outvoted
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE, MESSAGE_HEADER, RECEIPT, RECEIPT_ID

_UNTOUCHED: Final[frozenset[bytes]] = frozenset()
_SHOWN: Final = 200
"""How much is quoted of what an ERROR says."""


class Merge:
    """MESSAGEs of all brokers pass, RECEIPTs when they make up a quorum, and ERRORs when there is nobody who thinks
    otherwise. `erred` tells that the last that passed was an ERROR.
    """

    __slots__ = ("_client", "_disconnect", "_quorum", "_session", "erred")

    def __init__(self, client: Leg, session: Session, quorum: Quorum, disconnect: Disconnect) -> None:
        self._client = client
        self._session = session
        self._quorum = quorum
        self._disconnect = disconnect
        self.erred = False

    def pour(self, target: Target, member: Member, effects: list[Effect], now: float) -> StompError | None:
        """All complete frames of a broker as one `Send`; neighbours that pass as they came stay one slice. Answers what
        was wrong, after what was right.
        """
        leg, bridges, session = member.link.leg, member.link.bridges, member.session
        assert leg is not None
        assert bridges is not None
        bridge, decoder = bridges.to_client, leg.decoder
        untouched = _UNTOUCHED if member.erred or session.subscriptions.acknowledging else bridge.untouched
        pieces: list[bytes] = []
        data = b""
        start = stop = count = 0
        failure: StompError | None = None
        try:
            for frame in decoder.frames():
                count += 1
                data = frame.data
                head = None
                if frame.command not in untouched:
                    if frame.command is MESSAGE:
                        if member.erred:
                            self.erred = member.erred = False  # it goes on
                        head = bridge.head(frame, session)
                    elif frame.command is RECEIPT:
                        if not self._confirmed(target, member, frame, effects):
                            continue
                        head = bridge.head(frame, session)
                    else:
                        passes, failure = self._complained(target, member, frame, effects, now)
                        if failure is not None or member.link.parted or member.out:
                            break
                        if not passes:
                            continue
                        head = self._complaint(member, frame, bridge)
                if head is not None:
                    pieces += (data[start:stop], head)
                    start = frame.body
                elif frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
        except StompError as error:
            failure = error
        session.counters["broker_frames"] += count
        pieces.append(data[start:stop])
        if stop and not self._quorum.deaf:
            if decoder.trails and stop == len(data) and data[-1] == 0:
                # It would come with the next chunk, too late for clients that wait for it.
                pieces.append(b"\n")
            self._client.heartbeat.said_at = now
            effects.append(Send(self._client, b"".join(pieces)))
        return failure

    def _confirmed(self, target: Target, member: Member, frame: Frame, effects: list[Effect]) -> bool:
        """A RECEIPT. Answers whether it passes."""
        assert member.link.leg is not None
        receipt = frame.header(RECEIPT_ID, member.link.leg.dialect)
        member.session.received(receipt)
        if receipt is None:
            return not target.fans
        link = member.link
        member.strikes = 0
        member.erred = False
        if receipt == link.parting:
            link.parted = True
        if self._disconnect.answers(member, receipt):
            return self._disconnect.answered(member, receipt, effects)
        if not member.resender.unconfirmed.received(receipt):
            return False
        confirmation = self._quorum.confirmations.agree(member, receipt)
        return confirmation is not None and not confirmation.hidden

    def _complained(
        self, target: Target, member: Member, frame: Frame, effects: list[Effect], now: float
    ) -> tuple[bool, StompError | None]:
        """An ERROR. Answers whether it passes, or else why the session cannot go on, if it cannot."""
        assert member.link.leg is not None
        dialect, counters = member.link.leg.dialect, self._session.counters
        receipt = frame.header(RECEIPT_ID, dialect)
        member.session.received(receipt)
        asked = receipt is not None and self._quorum.confirmations.awaited(member, receipt) is not None
        if receipt is not None:
            member.resender.unconfirmed.refused(receipt)
        elif target.upstream.movable and leaves(frame.raw(MESSAGE_HEADER) or b""):
            counters["errors_withheld"] += 1  # it goes away, and the client need not know
            return False, None
        if not target.fans:
            self.erred = member.erred = True
            counters["errors_passed"] += 1
            return True, None
        what = (frame.header(MESSAGE_HEADER, dialect) or b"")[:_SHOWN].decode("utf-8", "backslashreplace")
        why = f"it answered ERROR: {what}" if what else "it answered ERROR"
        if receipt is not None and asked:
            member.blame = why
            counters["fanout_errors"] += 1
            effects.append(outvoted(member.link.group, target.upstream, why))
            return False, self._quorum.refused(member, receipt, effects, now)
        member.erred = True
        if all(each.erred for each in target.live):
            self.erred = True
            counters["errors_passed"] += 1
            return True, None
        counters["fanout_errors"] += 1
        return False, self._quorum.strike(target, member, why, effects, now)

    @staticmethod
    def _complaint(member: Member, frame: Frame, bridge: Bridge) -> bytes | None:
        """The head of an ERROR for the client, without a receipt-id that it never gave."""
        assert member.link.leg is not None
        receipt = frame.header(RECEIPT_ID, member.link.leg.dialect)
        if member.resender.unconfirmed.mine(receipt):
            return bridge.without(frame, RECEIPT_ID, member.session)
        return bridge.head(frame, member.session)
