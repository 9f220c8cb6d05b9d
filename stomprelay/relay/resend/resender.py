"""A client's frames on their way to a broker that may be lost, so that they can be sent to another one.

A resender belongs to a session's link to one group and outlives the legs there. It keeps what is not confirmed in
`Unconfirmed`; a `Sender` asks for receipts of the relay's own where the upstream sets `confirm`, and a `Line` sends
everything again that a new broker has to know.
"""

from collections.abc import Iterator, Sequence

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Outbox
from stomprelay.relay.model.group import Broker
from stomprelay.relay.resend.line import Line
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.sender import Sender
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
from stomprelay.wire.run import Run


class Resender:
    """Sends what a session's client sends to the broker that it has. `unconfirmed` is what is not confirmed.

    Give it a broker with `connected`, then `replay`; put frames in with `send` and write them with `flush`; call
    `lost` when the broker is lost. While there is none, `send` keeps what has to wait. After each of them give the
    client the receipts of `Unconfirmed.take_given`.
    """

    __slots__ = ("_at", "_line", "_offline", "_sender", "session", "unconfirmed")

    def __init__(self, session: Session, outbox: Outbox, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self._offline = Offline(session, limits, session.kept.room(most))
        self.unconfirmed = self._offline.unconfirmed
        self._sender = Sender(session, self._offline, outbox, confirm=confirm)
        self._line = Line(session, self._offline, self._sender)
        self._at: Broker | None = None

    @property
    def quiet(self) -> bool:
        """Whether the broker could be left without a loss."""
        return self.session.quiet and self.safe and self.unconfirmed.quiet

    @property
    def safe(self) -> bool:
        """Whether nothing that must reach the broker is uncertain to have done so."""
        return self.unconfirmed.safe and not self.careful

    # Receipts

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Returns whether it is the client's: asked for by it, and not given before."""
        self._line.answered(receipt)
        return self.unconfirmed.received(receipt)

    def received_all(self, receipts: list[bytes]) -> bool:
        """RECEIPTs came. Return whether they are the relay's own and were recorded; otherwise each has to be told to
        `received`.
        """
        if self.careful or not self.unconfirmed.received_all(receipts):
            return False
        self._line.answered(receipts[-1])
        return True

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        self._line.answered(receipt)
        self.unconfirmed.refused(receipt)

    # Brokers come and go

    def connected(
        self, leg: Leg, bridge: Bridge, broker: Broker, *, cumulative: bool, commits_early: bool
    ) -> None:
        """There is a broker. `cumulative`, `commits_early`: what its receipts mean, see `Profile`."""
        self._at = broker
        self.unconfirmed.connected(cumulative=cumulative, commits_early=commits_early)
        self._sender.connected(leg, bridge)

    def lost(self, *, subscriptions: bool = True, by: Broker | None, now: float) -> list[bytes | None]:
        """The broker is lost; `subscriptions` as for `replay`, `by` is the broker if it closed the connection itself.
        Returns what cannot be made good: each COMMIT whose outcome is unknown, as the receipt that its client asked
        for with it, if any.
        """
        self._sender.lost()
        self._line.lost(by, now)
        unconfirmed, session = self.unconfirmed, self.session
        session.counters["possibly_lost"] += unconfirmed.unproved
        session.lost_broker()
        for receipt in unconfirmed.lost(self._line.receipts(subscriptions=subscriptions)):
            session.received(receipt)
        return unconfirmed.take_doubts()

    # What a new broker has to know

    def replay(self, *, subscriptions: bool, now: float) -> None:
        """Put in for a new broker all that it has to know; write it with `flush`. A long line is only begun, and so is
        one after lines that cost brokers their connection: see `careful`. Raises as `send` does.
        """
        self._line.begin(self._at, now, subscriptions=subscriptions)
        self.go_on(now)

    def go_on(self, now: float) -> None:
        """Send as much more of the line as may be sent now; write it with `flush`. Raises as `send` does."""
        leg, _ = self._sender.connection
        if leg.state is not State.LEAVING:  # nothing may come behind DISCONNECT
            self._line.go_on(now)

    @property
    def careful(self) -> bool:
        """Whether part of what a new broker has to know waits until it answered another part or, where `hasty`, for
        the next turn: call `go_on` after each receipt and in each turn, and `send` nothing until then.
        """
        return self._sender.broker is not None and not self._line.done

    @property
    def cautious(self) -> bool:
        """Whether it waits for answers, because lines before this one cost brokers their connection."""
        return self._sender.broker is not None and self._line.cautious

    @property
    def hasty(self) -> bool:
        """Whether the line is only too long for one turn."""
        return self._line.hasty

    def take_refused(self) -> Sequence[Refused]:
        """Return the frames that were taken out of the line since the last call, as errors for the client."""
        refused, self._line.refused = self._line.refused, []
        return refused

    def unsubscribe(self) -> None:
        """Put in that no more messages are wanted; write it with `flush`. Much of it is only begun: see `careful`."""
        self._line.unsubscribe()

    # Frames

    def send(self, frame: Frame | Run) -> None:
        """Put in a client's frame for the broker or, while there is none, for the next. Raises `StompError` for one
        that cannot be sent. A run may come only while there is a broker.
        """
        broker = self._sender.broker
        if type(frame) is Run:
            self._sender.send_run(frame)
        elif broker is None:
            self._offline.send(frame)
        else:
            self._sender.send(frame, broker[1])

    def flush(self, now: float) -> None:
        """Write what was put in since the last time, in one piece."""
        self._sender.flush(now)

    def read(self, wire: bytes) -> Iterator[Frame]:
        """Return the client's frames in bytes that were kept, as they were read when they came."""
        return self._offline.read(wire)

    def spelled(self, wire: bytes) -> bytes:
        """Return a frame of the client as the broker is sent it; nothing is kept or asked for."""
        _, bridge = self._sender.connection
        return b"".join([bridge.carry(frame, self.session) for frame in self.read(wire)])
