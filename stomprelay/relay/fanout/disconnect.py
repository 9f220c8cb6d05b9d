"""A client's DISCONNECT, or that of the relay in its place, on its way to several brokers."""

from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.quorum import Confirmation, Quorum
from stomprelay.relay.fanout.router import Router
from stomprelay.relay.flow import GOODBYE, DisconnectState
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import RECEIPT_HEADER


class Disconnect:
    """Sends DISCONNECT to all brokers when everything else is `safe`. `receipt`: the one that the client asked for."""

    __slots__ = ("_asked", "_awaited", "_frame", "_quorum", "_router", "_session", "receipt", "state")

    def __init__(self, session: Session, router: Router, quorum: Quorum) -> None:
        self._session = session
        self._router = router
        self._quorum = quorum
        self._frame = b""
        self._asked: bytes | None = None
        self._awaited = 0
        self.receipt: bytes | None = None
        self.state = DisconnectState.NONE

    @property
    def safe(self) -> bool:
        """Whether nothing that must not be lost is undecided, and a quorum has all other frames."""
        pending = self._quorum.confirmations.pending
        return not pending and all(target.safe for target in self._router.targets)

    @property
    def settled(self) -> bool:
        """Whether it was sent, and the client is owed nothing."""
        if self.state is DisconnectState.SENT:
            told = [member for _, member in self._router.places.values() if member.disconnecting]
            return self.receipt is None and all(member.safe for member in told)
        return self.state is DisconnectState.CONFIRMED

    def received(self, frame: Frame, client: Leg) -> None:
        """Record the DISCONNECT frame that the client sent: it waits."""
        self.receipt = frame.header(RECEIPT_HEADER, client.dialect)
        self._frame = frame.wire
        self._begin(self.receipt, client)

    def finish(self, client: Leg) -> None:
        """Have one wait that the client did not send, and that asks for a receipt of the relay's."""
        self._begin(self._session.name + GOODBYE, client)

    def _begin(self, receipt: bytes | None, client: Leg) -> None:
        self._asked = receipt
        client.enter(State.LEAVING)
        self.state = DisconnectState.WAITING

    def go_on(self, now: float) -> None:
        """Send it to brokers that have all that they shall have."""
        if self.state is DisconnectState.WAITING and self.safe:
            self.send(now)
        elif self.state is DisconnectState.SENT:
            for _, member in self._router.places.values():
                if member.up and not member.disconnecting and member.safe:
                    self._send(member, now)

    def send(self, now: float) -> None:
        """Send it to all brokers that are there, whatever it waits for; what the others miss is counted."""
        self.state = DisconnectState.SENT
        for target in self._router.targets:
            there = [member for member in target.live if member.up]
            missed = sum(member.write_off() for member in target.live if member not in there)
            self._session.counters["possibly_lost"] += missed
            for member in there:
                self._send(member, now)
            if self._asked is not None and there:
                self._awaited += 1
                quorum = min(target.quorum, len(there))
                self._quorum.confirmations.ask(Confirmation(self._asked, there, quorum))

    def _send(self, member: Member, now: float) -> None:
        if self._frame:
            member.send_disconnect(member.resender.spelled(self._frame), now)
        elif self._asked is not None:
            to_broker = member.link.connection.bridges.to_broker
            member.send_disconnect(to_broker.leave(self._asked, member.session), now)

    def is_ours(self, receipt: bytes | None) -> bool:
        """Whether a receipt is that of a DISCONNECT which the client did not send."""
        return receipt is not None and not self._frame and receipt == self._asked

    def answered_by(self, member: Member, receipt: bytes) -> bool:
        """Whether a RECEIPT of a member's broker is for it."""
        return member.disconnecting and receipt == self._asked

    def awaits(self, member: Member) -> bool:
        """Whether a member's broker was sent it and has not confirmed it."""
        confirmations, receipt = self._quorum.confirmations, self._asked
        return (
            member.disconnecting
            and receipt is not None
            and confirmations.awaited(member, receipt) is not None
        )

    def confirmed(self, member: Member, receipt: bytes) -> bool:
        """A broker confirmed it, and is left unless that makes it enough of them. Returns whether it does."""
        if not self.awaits(member):
            return False  # ActiveMQ may answer twice
        member.link.proved()
        self._awaited -= self._quorum.confirmations.confirm(member, receipt) is not None
        if self.state is DisconnectState.SENT and not self._awaited:
            self.state = DisconnectState.CONFIRMED
            return True
        member.link.end()  # what it closes now is no loss
        return False
