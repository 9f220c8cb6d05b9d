"""Frames of several brokers, as one stream for the client."""

from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.disconnect import Farewell
from stomprelay.relay.fanout.member import Lane
from stomprelay.relay.fanout.quorum import Quorum
from stomprelay.relay.fanout.router import Trunk
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


class Confluence:
    """MESSAGEs of all brokers pass, RECEIPTs when they make up a quorum, and ERRORs when there is nobody who thinks
    otherwise. `erred` tells that the last that passed was an ERROR.
    """

    __slots__ = ("_client", "_farewell", "_quorum", "_session", "erred")

    def __init__(self, client: Leg, session: Session, quorum: Quorum, farewell: Farewell) -> None:
        self._client = client
        self._session = session
        self._quorum = quorum
        self._farewell = farewell
        self.erred = False

    def pour(self, trunk: Trunk, lane: Lane, effects: list[Effect], now: float) -> StompError | None:
        """All complete frames of a broker as one `Send`; neighbours that pass as they came stay one slice. Answers what
        was wrong, after what was right.
        """
        leg, pairing, session = lane.branch.leg, lane.branch.pairing, lane.session
        assert leg is not None
        assert pairing is not None
        bridge, decoder = pairing.to_client, leg.decoder
        untouched = _UNTOUCHED if lane.erred or session.subscriptions.acknowledging else bridge.untouched
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
                        if lane.erred:
                            self.erred = lane.erred = False  # it goes on
                        head = bridge.head(frame, session)
                    elif frame.command is RECEIPT:
                        if not self._confirmed(trunk, lane, frame, effects):
                            continue
                        head = bridge.head(frame, session)
                    else:
                        passes, failure = self._complained(trunk, lane, frame, effects, now)
                        if failure is not None or lane.branch.parted or lane.out:
                            break
                        if not passes:
                            continue
                        head = self._complaint(lane, frame, bridge)
                if head is not None:
                    pieces += (data[start:stop], head)
                    start = frame.body
                elif frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
        except StompError as error:
            failure = error
        session.tally["broker_frames"] += count
        pieces.append(data[start:stop])
        if stop and not self._quorum.deaf:
            if decoder.trails and stop == len(data) and data[-1] == 0:
                # It would come with the next chunk, too late for clients that wait for it.
                pieces.append(b"\n")
            self._client.heartbeat.said_at = now
            effects.append(Send(self._client, b"".join(pieces)))
        return failure

    def _confirmed(self, trunk: Trunk, lane: Lane, frame: Frame, effects: list[Effect]) -> bool:
        """A RECEIPT. Answers whether it passes."""
        assert lane.branch.leg is not None
        receipt = frame.header(RECEIPT_ID, lane.branch.leg.dialect)
        lane.session.received(receipt)
        if receipt is None:
            return not trunk.fans
        branch = lane.branch
        lane.strikes = 0
        lane.erred = False
        if receipt == branch.parting:
            branch.parted = True
        if self._farewell.answers(lane, receipt):
            return self._farewell.answered(lane, receipt, effects)
        if not lane.carrier.backlog.received(receipt):
            return False
        ballot = self._quorum.votes.agree(lane, receipt)
        return ballot is not None and not ballot.hidden

    def _complained(
        self, trunk: Trunk, lane: Lane, frame: Frame, effects: list[Effect], now: float
    ) -> tuple[bool, StompError | None]:
        """An ERROR. Answers whether it passes, or else why the session cannot go on, if it cannot."""
        assert lane.branch.leg is not None
        dialect, tally = lane.branch.leg.dialect, self._session.tally
        receipt = frame.header(RECEIPT_ID, dialect)
        lane.session.received(receipt)
        asked = receipt is not None and self._quorum.votes.awaited(lane, receipt) is not None
        if receipt is not None:
            lane.carrier.backlog.refused(receipt)
        elif trunk.upstream.movable and leaves(frame.raw(MESSAGE_HEADER) or b""):
            tally["errors_withheld"] += 1  # it goes away, and the client need not know
            return False, None
        if not trunk.fans:
            self.erred = lane.erred = True
            tally["errors_passed"] += 1
            return True, None
        what = (frame.header(MESSAGE_HEADER, dialect) or b"")[:_SHOWN].decode("utf-8", "backslashreplace")
        why = f"it answered ERROR: {what}" if what else "it answered ERROR"
        if receipt is not None and asked:
            lane.blame = why
            tally["fanout_errors"] += 1
            effects.append(outvoted(lane.branch.group, trunk.upstream, why))
            return False, self._quorum.refused(lane, receipt, effects, now)
        lane.erred = True
        if all(each.erred for each in trunk.live):
            self.erred = True
            tally["errors_passed"] += 1
            return True, None
        tally["fanout_errors"] += 1
        return False, self._quorum.strike(trunk, lane, why, effects, now)

    @staticmethod
    def _complaint(lane: Lane, frame: Frame, bridge: Bridge) -> bytes | None:
        """The head of an ERROR for the client, without a receipt-id that it never gave."""
        assert lane.branch.leg is not None
        receipt = frame.header(RECEIPT_ID, lane.branch.leg.dialect)
        if lane.carrier.backlog.mine(receipt):
            return bridge.without(frame, RECEIPT_ID, lane.session)
        return bridge.head(frame, lane.session)
