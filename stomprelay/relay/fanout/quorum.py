"""Which frames enough groups have confirmed, which groups must still answer, and what the client is sent about this."""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from stomprelay.relay.effects import Outbox, give_error, give_receipts, given_up, left, outvoted
from stomprelay.relay.fanout.router import Member, Router, Target
from stomprelay.relay.resend.resender import NotAccepted
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError

Party = TypeVar("Party", bound=Hashable)


class Outcome(Enum):
    """The outcome of a confirmation."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    """The quorum cannot be reached any more, whatever the remaining parties answer."""


@dataclass(slots=True, eq=False, repr=False)
class Confirmation(Generic[Party]):
    """A frame that passes when `quorum` parties, and all `required` parties, have confirmed it.

    `awaited` parties have not answered. `refused` parties answered with ERROR or were given up, in this order.
    `released` parties need not confirm the frame any more. When no party is awaited, they count as confirmed. `crucial`
    frames must not be lost. A `hidden` receipt is the relay's; the client does not know it.
    """

    receipt: bytes
    parties: InitVar[Collection[Party]]
    quorum: int
    _required: Collection[Party] = ()
    without: InitVar[Collection[Party]] = ()
    _: KW_ONLY
    crucial: bool = False
    hidden: bool = False
    outcome: Outcome = Outcome.OPEN
    awaited: set[Party] = field(init=False)
    refused: list[Party] = field(init=False)
    confirmed: set[Party] = field(default_factory=set)
    released: set[Party] = field(default_factory=set)

    def __post_init__(self, parties: Collection[Party], without: Collection[Party]) -> None:
        self.awaited = set(parties)
        self.refused = list(without)
        self._required = frozenset(self._required)
        self.count()

    def count(self) -> None:
        """Set the outcome, if the answers so far decide it."""
        if self.outcome is not Outcome.OPEN:
            return
        if len(self.confirmed) >= self.quorum and self.confirmed.issuperset(self._required):
            self.outcome = Outcome.PASSED
            return
        content = self.confirmed | self.released
        possible = content | self.awaited
        if len(possible) < self.quorum or not possible.issuperset(self._required):
            self.outcome = Outcome.FAILED
        elif not self.awaited:
            self.outcome = Outcome.PASSED


@dataclass(slots=True, eq=False, repr=False)
class Confirmations(Generic[Party]):
    """The confirmations of one client, by receipt. If several requests to a party have the same receipt, the party
    answers them in the order in which they were asked.

    `confirm`, `release`, `refuse`, `leave` and `replaced` return the confirmations that are decided now by the party's
    answer.
    """

    pending: int = 0
    """How many `crucial` confirmations are open."""
    asked: int = 0
    """How many answers are awaited, of all parties together."""
    _first: dict[tuple[bytes, Party], Confirmation[Party]] = field(default_factory=dict)
    _following: dict[tuple[bytes, Party], deque[Confirmation[Party]]] = field(default_factory=dict)

    def ask(self, confirmation: Confirmation[Party]) -> None:
        """Record that a frame with a receipt goes to the parties of this confirmation. Its outcome must be OPEN."""
        self.pending += confirmation.crucial
        self.asked += len(confirmation.awaited)
        for party in confirmation.awaited:
            key = confirmation.receipt, party
            if self._first.setdefault(key, confirmation) is not confirmation:
                self._following.setdefault(key, deque()).append(confirmation)

    def withdraw(self, confirmation: Confirmation[Party]) -> None:
        """Undo the last `ask`, which was for this confirmation, because the frame was not sent."""
        self.pending -= confirmation.crucial
        self.asked -= len(confirmation.awaited)
        for party in confirmation.awaited:
            key = confirmation.receipt, party
            following = self._following.get(key)
            if following is None:
                del self._first[key]
            else:
                following.pop()
                if not following:
                    del self._following[key]

    def confirm(self, party: Party, receipt: bytes) -> list[Confirmation[Party]]:
        """A party sent this RECEIPT."""
        return self._answer(lambda asked: asked.confirmed.add(party), party, receipt)

    def release(self, party: Party, receipt: bytes) -> list[Confirmation[Party]]:
        """This party need not confirm the receipt."""
        return self._answer(lambda asked: asked.released.add(party), party, receipt)

    def refuse(self, party: Party, receipt: bytes) -> list[Confirmation[Party]]:
        """A party answered with an ERROR."""
        return self._answer(lambda asked: asked.refused.append(party), party, receipt)

    def leave(self, party: Party, *, leniently: bool = False) -> list[Confirmation[Party]]:
        """A party is given up: it refuses what it was asked. `leniently`: it need not confirm what is not `crucial`."""
        decided: list[Confirmation[Party]] = []
        for receipt, asked in self._asked_of(party):
            answer = self.release if leniently and not asked.crucial else self.refuse
            decided += answer(party, receipt)
        return decided

    def replaced(self, party: Party) -> list[Confirmation[Party]]:
        """Another party will be asked for what is `crucial` in place of this one. The rest need not be confirmed."""
        decided: list[Confirmation[Party]] = []
        for receipt, asked in self._asked_of(party):
            asked.hidden = asked.hidden or asked.crucial
            decided += self.release(party, receipt)
        return decided

    def _asked_of(self, party: Party) -> Iterator[tuple[bytes, Confirmation[Party]]]:
        """Yield what the party was asked, until all is answered."""
        for receipt in [receipt for receipt, asked in self._first if asked == party]:
            while (asked := self.awaited(party, receipt)) is not None:
                yield receipt, asked

    def owing(self, party: Party) -> bool:
        """Whether this party has to answer something that is not decided."""
        return any(asked.outcome is Outcome.OPEN for (_, each), asked in self._first.items() if each == party)

    def awaited(self, party: Party, receipt: bytes) -> Confirmation[Party] | None:
        """Return the confirmation that the party's next answer with this receipt belongs to, or None."""
        return self._first.get((receipt, party))

    def _answer(
        self, record: Callable[[Confirmation[Party]], None], party: Party, receipt: bytes
    ) -> list[Confirmation[Party]]:
        key = receipt, party
        confirmation = self._first.pop(key, None)
        if confirmation is None:
            return []
        self.asked -= 1
        following = self._following.get(key)
        if following is not None:
            self._first[key] = following.popleft()
            if not following:
                del self._following[key]
        was = confirmation.outcome
        confirmation.awaited.discard(party)
        record(confirmation)
        confirmation.count()
        if confirmation.outcome is was:
            return []
        self.pending -= confirmation.crucial
        return [confirmation]


_FAULTS: Final = 2
"""How often a broker may send an ERROR, and confirm nothing in between, before its group is given up."""


@dataclass(slots=True, eq=False, repr=False)
class Quorum:
    """The `confirmations` of a session, and its failed groups. Raises `StompError` if the session cannot go on."""

    _client: Leg
    _session: Session
    _outbox: Outbox
    _router: Router
    confirmations: Confirmations[Member] = field(default_factory=Confirmations)

    def released(self, member: Member) -> list[Confirmation[Member]]:
        """Record that this member will not answer for the receipts that the relay gives itself. Return the
        confirmations that are decided now; call `announce` with them.
        """
        receipts, release = member.resender.unconfirmed.take_given(), self.confirmations.release
        for receipt in receipts:
            member.answered(receipt)
        return [decided for receipt in receipts for decided in release(member, receipt)]

    def confirmed_late(self, member: Member, now: float) -> None:
        """Count the broker's RECEIPTs that were held back until now. Raises as `announce` does."""
        receipts, confirm = member.resender.unconfirmed.take_late(), self.confirmations.confirm
        self.announce([decided for receipt in receipts for decided in confirm(member, receipt)], now)

    def announce(self, decided: Iterable[Confirmation[Member]], now: float) -> None:
        """Give the client the receipts of decided confirmations. Raises `Refused` for the first failed one."""
        failure: Refused | None = None
        passed: list[bytes] = []
        for confirmation in decided:
            if confirmation.outcome is Outcome.FAILED and failure is None:
                target, _ = self._router.places[confirmation.refused[-1].link]
                receipt = None if confirmation.hidden else confirmation.receipt
                failure = target.failure(confirmation.refused, receipt)
            elif confirmation.outcome is Outcome.PASSED and not confirmation.hidden:
                passed.append(confirmation.receipt)
        give_receipts(passed, self._client, self._outbox, now)
        if failure is not None:
            raise failure

    def refused(self, member: Member, receipt: bytes, now: float) -> None:
        """Record that a broker answered with an ERROR instead of a RECEIPT. Raises `Refused`, as `announce` does."""
        self.announce(self.confirmations.refuse(member, receipt), now)

    def poisoned(self, target: Target, member: Member, now: float, *, ends: bool) -> None:
        """Record frames that made a group's brokers close, and SENDs that a broker did not confirm in time. A frame
        that awaits an answer is refused. Any other frame is a fault of the broker, but no SEND, which was counted.
        Raises as `refused` and `fault` do, but for a SEND only if the session `ends`, or has to end at each ERROR.
        """
        for error in member.link.take_refused():
            reason = error.detail or error.message
            self._outbox.put(outvoted(member.link.group, target.upstream, reason))
            self._session.counters["fanout_errors"] += 1
            if self.confirmations.awaited(member, receipt := error.receipt or b"") is not None:
                member.reason = reason
                try:
                    self.refused(member, receipt, now)
                except Refused as failure:
                    if ends or target.upstream.close_on_error or not isinstance(error, NotAccepted):
                        raise
                    give_error(error.about(failure), self._client, self._session, self._outbox, now)
            elif not isinstance(error, NotAccepted):
                self.fault(target, member, reason, now)

    # Groups that fail

    def lost(self, target: Target, member: Member, now: float) -> None:
        """A group lost its broker. Raises `StompError` for an unknown outcome that the client must be told."""
        self.doubted(target, member, member.lost(now), now)

    def doubted(self, target: Target, member: Member, failures: Iterable[StompError], now: float) -> None:
        """A group did not do what it was sent, or nobody knows whether it did. Raises as `lost` does."""
        for failure in failures:
            if not target.fans or failure.receipt is None:
                raise failure
            member.reason = failure.detail or failure.message
            self.refused(member, failure.receipt, now)

    def fault(self, target: Target, member: Member, reason: str, now: float) -> None:
        """Leave a broker that made an error. At the second error, give its group up. Raises as `give_up` does."""
        member.faults += 1
        member.reason = reason
        if member.faults >= _FAULTS:
            self.give_up(target, member, reason, now)
        elif member.link.up:
            self._outbox.put(left(member.link.broker, target.upstream, reason))
            member.link.connection.done = True

    def give_up(self, target: Target, member: Member, reason: str, now: float) -> None:
        """Leave a group out for the rest of the session. Raises `Refused` if the quorum is then out of reach."""
        if member.given_up:
            return
        member.given_up = True
        member.reason = reason
        link = member.link
        self._outbox.put(given_up(link.group, link.broker or link.before, target.upstream, reason))
        member.lost(now)
        self._session.counters["possibly_lost"] += member.write_off()
        link.end()
        self.announce([*self.released(member), *self.confirmations.leave(member)], now)
        if not target.reachable:
            raise target.failure([each for each in target.members if each.given_up])

    def leave(self, target: Target, member: Member, now: float) -> None:
        """Leave a broker that accepts no more bytes; its group looks for another broker. Raises as `lost` does."""
        link = member.link
        self._outbox.put(left(link.broker, target.upstream, "it takes nothing any more"))
        self._session.counters["brokers_lost"] += 1
        link.connection.done = True
        try:
            self.lost(target, member, now)
        finally:
            link.hang_up(How.ABORT)
            self._router.opened.append(link)
