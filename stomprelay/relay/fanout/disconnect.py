"""A client's DISCONNECT, on its way to several brokers."""

from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.fanout.quorum import Confirmation, Quorum
from stomprelay.relay.fanout.router import Router
from stomprelay.relay.flow import DisconnectState
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import RECEIPT_HEADER


class Disconnect:
    """Waits until everything else is `safe`, is said to all brokers that are there, and confirmed when a quorum of
    each upstream did so.
    """

    __slots__ = ("_awaited", "_parting", "_quorum", "_router", "_session", "disconnect", "disconnect_receipt")

    def __init__(self, session: Session, router: Router, quorum: Quorum) -> None:
        self._session = session
        self._router = router
        self._quorum = quorum
        self._parting = b""
        self._awaited = 0
        self.disconnect_receipt: bytes | None = None
        self.disconnect = DisconnectState.UNSAID

    @property
    def safe(self) -> bool:
        """Nothing that must not be lost is undecided, and a quorum has all of the rest."""
        return not self._quorum.confirmations.pending and all(target.safe for target in self._router.targets)

    @property
    def settled(self) -> bool:
        """It was said, and the client is owed nothing."""
        if self.disconnect is DisconnectState.SAID:
            told = [member for _, member in self._router.places.values() if member.told]
            return self.disconnect_receipt is None and all(member.safe for member in told)
        return self.disconnect is DisconnectState.CONFIRMED

    def came(self, frame: Frame, client: Leg) -> None:
        """The client says it."""
        self.disconnect_receipt = frame.header(RECEIPT_HEADER, client.dialect)
        client.enter(State.LEAVING)
        self.disconnect = DisconnectState.WAITING
        self._parting = frame.wire

    def go_on(self, effects: list[Effect], now: float) -> None:
        """Say it to brokers that have all that they shall have."""
        if self.disconnect is DisconnectState.WAITING and self.safe:
            self.say(effects, now)
        elif self.disconnect is DisconnectState.SAID:
            for _, member in self._router.places.values():
                if member.up and not member.told and member.safe:
                    self._tell(member, effects, now)

    def say(self, effects: list[Effect], now: float) -> None:
        """Say it to all brokers that are there, come what may; what the others miss is counted."""
        self.disconnect = DisconnectState.SAID
        for target in self._router.targets:
            there = [member for member in target.live if member.up]
            missed = sum(member.uncertain for member in target.live if member not in there)
            self._session.counters["possibly_lost"] += missed
            for member in there:
                self._tell(member, effects, now)
            if self.disconnect_receipt is not None and there:
                self._awaited += 1
                self._quorum.confirmations.ask(
                    Confirmation(self.disconnect_receipt, there, min(target.quorum, len(there)))
                )

    def _tell(self, member: Member, effects: list[Effect], now: float) -> None:
        leg = member.link.leg
        assert leg is not None
        member.blocked = False
        member.flush(effects, now)
        member.told = True
        leg.enter(State.LEAVING)
        leg.heartbeat.said_at = now
        effects.append(Send(leg, member.resender.spelled(self._parting)))

    def answers(self, member: Member, receipt: bytes) -> bool:
        """Whether a RECEIPT is for it."""
        return member.told and receipt == self.disconnect_receipt

    def awaits(self, member: Member) -> bool:
        """Whether a broker was told it and has not confirmed it."""
        confirmations = self._quorum.confirmations
        return (
            member.told
            and self.disconnect_receipt is not None
            and confirmations.awaited(member, self.disconnect_receipt) is not None
        )

    def answered(self, member: Member, receipt: bytes, effects: list[Effect]) -> bool:
        """A broker confirmed it, and is left unless that makes it enough of them. Answers whether it does."""
        if not self.awaits(member):
            return False  # ActiveMQ may answer twice
        self._awaited -= self._quorum.confirmations.agree(member, receipt) is not None
        if self.disconnect is DisconnectState.SAID and not self._awaited:
            self.disconnect = DisconnectState.CONFIRMED
            return True
        member.link.end(effects)  # what it closes now is no loss
        return False
