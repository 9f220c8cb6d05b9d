"""A client's frames on their way to a broker that may be lost, so that they can be sent to another one."""

from collections.abc import Iterator, Sequence

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Outbox
from stomprelay.relay.model.group import Broker
from stomprelay.relay.resend.caution import Caution
from stomprelay.relay.resend.line import Line
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.sender import Sender
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import RECEIPT_HEADER
from stomprelay.wire.run import Run


class Resender:
    """Sends a client's frames to one broker after the other in a group. `unconfirmed` is what is not confirmed.

    Call `connected` and `replay` for a broker, `send` and `flush` for frames (without a broker `send` keeps them), and
    `lost` when the broker is lost. After each, give the client the receipts of `Unconfirmed.take_given`.
    """

    __slots__ = (
        "_at",
        "_caution",
        "_confirm",
        "_line",
        "_offline",
        "_outbox",
        "_refused",
        "_sender",
        "_subscribes",
        "read",
        "session",
        "unconfirmed",
    )

    def __init__(self, session: Session, outbox: Outbox, limits: Limits, *, most: int, confirm: bool) -> None:
        self.session = session
        self._outbox = outbox
        self._confirm = confirm
        self._offline = Offline(session, limits, session.kept.room(most))
        self.unconfirmed = self._offline.unconfirmed
        self.read = self._offline.read
        self._caution = Caution()
        self._refused: list[Refused] = []
        self._at: Broker | None = None
        self._sender: Sender | None = None
        self._line: Line | None = None
        self._subscribes = True

    @property
    def quiet(self) -> bool:
        """Whether the broker could be left without a loss."""
        return self.session.quiet and self.safe and self.unconfirmed.quiet

    @property
    def safe(self) -> bool:
        """Whether nothing that must reach the broker is uncertain to have done so."""
        return self._line is None and self.unconfirmed.safe

    # Receipts

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Returns whether it is the client's: asked for by it, and not given before."""
        self._caution.answered(receipt)
        return self.unconfirmed.received(receipt)

    def received_all(self, receipts: list[bytes]) -> bool:
        """Return whether RECEIPTs are the relay's own, and recorded; otherwise call `received` with each."""
        if self._line is not None or not self.unconfirmed.received_all(receipts):
            return False
        self._caution.answered(receipts[-1])
        return True

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        self._caution.answered(receipt)
        self.unconfirmed.refused(receipt)

    # Brokers come and go

    def connected(
        self, leg: Leg, bridge: Bridge, broker: Broker, *, cumulative: bool, commits_early: bool
    ) -> None:
        """There is a broker. `cumulative`, `commits_early`: what its receipts mean, see `Profile`."""
        self._at = broker
        self.unconfirmed.connected(cumulative=cumulative, commits_early=commits_early)
        self.session.forget_head()
        self._sender = Sender(leg, bridge, self.session, self._offline, self._outbox, confirm=self._confirm)

    def lost(self, *, subscriptions: bool = True, by: Broker | None, now: float) -> list[bytes | None]:
        """The broker is lost; `by` is it if it closed the connection itself. Frames that were not written are dropped.
        Returns the receipts of COMMITs whose outcome is unknown, None where the client asked for none.
        """
        self._sender = self._line = None
        self._caution.lost(by, now)
        unconfirmed, session = self.unconfirmed, self.session
        session.counters["possibly_lost"] += unconfirmed.unproved
        session.lost_broker()
        for receipt in unconfirmed.lost(self._asked_again(subscriptions=subscriptions)):
            session.received(receipt)
        return unconfirmed.take_doubts()

    def _asked_again(self, *, subscriptions: bool) -> Iterator[bytes]:
        """Yield the receipts that the next broker is asked for with subscriptions and open transactions."""
        for subscription in self.session.subscriptions if subscriptions else ():
            yield from (value for name, value in subscription.headers if name == RECEIPT_HEADER)
        for transaction in self.session.transactions.values():
            for frame in self.read(b"".join(transaction.frames)):
                receipt = frame.header(RECEIPT_HEADER, self.session.dialect)
                if receipt is not None:
                    yield receipt

    # What a new broker has to know

    def replay(self, *, subscriptions: bool, now: float) -> None:
        """Put in all that a new broker has to know, or begin to (`careful`); then `flush`. Raises as `send`."""
        self._caution.began(self._at, now)
        self._subscribes = subscriptions
        self._line = self._new_line(hurries=not self._caution.window)
        self._line.begin(now, subscriptions=subscriptions)
        self.go_on(now)

    def _new_line(self, *, hurries: bool) -> Line:
        return Line(self.session, self._offline, self._there, self._caution, self._refused, hurries=hurries)

    @property
    def _there(self) -> Sender:
        """The sender to the broker that is there. Raises `LookupError` while there is none."""
        if self._sender is None:
            raise LookupError("there is no broker")
        return self._sender

    def go_on(self, now: float) -> None:
        """Send as much more of the line as may be sent now; write it with `flush`. Raises as `send` does."""
        line = self._line
        if line is not None and self._there.leg.state is not State.LEAVING:  # nothing may follow DISCONNECT
            line.go_on(now)
            if line.done:
                self._line = None

    @property
    def careful(self) -> bool:
        """Whether a part of the line waits: call `go_on` after each receipt or (`hasty`) turn, and do not `send`."""
        return self._line is not None

    @property
    def cautious(self) -> bool:
        """Whether it waits for answers, because lines before this one cost brokers their connection."""
        return self._sender is not None and self._caution.window > 0

    @property
    def hasty(self) -> bool:
        """Whether the line is only too long for one turn."""
        return self._line is not None and self._line.hasty

    def take_refused(self) -> Sequence[Refused]:
        """Return the frames that were taken out of the line since the last call, as errors for the client."""
        refused = self._refused[:]
        self._refused.clear()
        return refused

    def unsubscribe(self) -> None:
        """Put in that no more messages are wanted; write it with `flush`. Much of it is only begun: see `careful`."""
        line = self._line or self._new_line(hurries=False)
        line.unsubscribe(subscribed=self._subscribes)
        self._line = None if line.done else line

    # Frames

    def send(self, frame: Frame | Run) -> None:
        """Put in a frame, or a run if there is a broker. Raises `StompError` for one that cannot be sent."""
        if type(frame) is Run:
            self._there.send_run(frame)
        elif self._sender is None:
            self._offline.send(frame)
        else:
            self._sender.send(frame)

    def flush(self, now: float) -> None:
        """Write what was put in since the last time, in one piece."""
        if self._sender is not None:
            self._sender.flush(now)

    def spelled(self, wire: bytes) -> bytes:
        """Return a frame of the client as the broker is sent it; nothing is kept or asked for."""
        return self._there.spelled(wire)
