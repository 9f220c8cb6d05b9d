"""Nothing is lost and nothing doubled, whatever clients of any version do in whatever order.

Hypothesis plays the clients; a model keeps account of who has each message. A message is delivered only while
nobody has it, marked as redelivered exactly when somebody had it before, and in the end everything that was not
consumed is still there, in order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.broker.scene import Peer, Scene, header

QUEUES: Final = (b"/queue/a", b"b")
DEAD: Final = b"/queue/DLQ"
ACKS: Final = (b"auto", b"client", b"client-individual")
REFUSALS: Final = 2


@dataclass
class Letter:
    """What the model knows of one message to a queue."""

    body: bytes
    place: bytes
    taken: bool = False
    delivered: bool = False
    done: bool = False
    refusals: int = 0


@dataclass(eq=False)
class Copy:
    """One MESSAGE that has to be acknowledged. `number` says when it was delivered."""

    letter: Letter
    frame: bytes
    number: int
    subscription: bytes


@dataclass(eq=False)
class Person:
    """What the model knows of one client: its socket, its subscriptions (where to, how acknowledged), the copies it
    has to acknowledge in the order of delivery, and what waits in its transaction `t`, if that is open.
    """

    peer: Peer
    subscriptions: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    owes: dict[bytes, list[Copy]] = field(default_factory=dict)
    sent: list[Letter] | None = None
    settled: list[tuple[Copy, bytes]] = field(default_factory=list)


def _anybody(_: Person) -> bool:
    return True


def _subscribed(person: Person) -> bool:
    return bool(person.subscriptions)


def _owing(person: Person) -> bool:
    return any(person.owes.values())


def _open(person: Person) -> bool:
    return person.sent is not None


def _closed(person: Person) -> bool:
    return person.sent is None


class Account(RuleBasedStateMachine):
    """Clients at one broker with small bounds on turns and windows."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(burst=200, refusals=REFUSALS)
        self.people = [Person(self.scene.client(version)) for version in (b"1.0", b"1.1", b"1.2")]
        self.letters: dict[bytes, Letter] = {}
        self.names = 0
        self.copies = 0
        for person, where, ack in zip(self.people, (*QUEUES, DEAD), reversed(ACKS), strict=True):
            self._subscribe(person, where, ack, 3)

    # What clients do

    @precondition(lambda self: len(self.people) < 4)
    @rule(version=st.sampled_from([b"1.0", b"1.1", b"1.2"]))
    def comes(self, version: bytes) -> None:
        self.people.append(Person(self.scene.client(version)))

    @rule(
        data=st.data(),
        ack=st.sampled_from(ACKS),
        where=st.sampled_from((*QUEUES, DEAD)),
        window=st.integers(1, 4),
    )
    def subscribes(self, data: st.DataObject, ack: bytes, where: bytes, window: int) -> None:
        self._subscribe(self._one(data, _anybody), where, ack, window)

    @rule(data=st.data(), where=st.sampled_from(QUEUES), count=st.integers(1, 5))
    def sends(self, data: st.DataObject, where: bytes, count: int) -> None:
        person = self._one(data, _anybody)
        person.peer.sends_to(where, *[self._letter(where).body for _ in range(count)])

    @precondition(lambda self: any(map(_subscribed, self.people)))
    @rule(data=st.data())
    def unsubscribes(self, data: st.DataObject) -> None:
        person = self._one(data, _subscribed)
        id = data.draw(st.sampled_from(sorted(person.subscriptions)))
        self._returns(person.owes.pop(id))
        person.peer.says(b"UNSUBSCRIBE\nid:%b\n\n\0" % id)
        self._hears(person)
        del person.subscriptions[id]

    @precondition(lambda self: any(map(_owing, self.people)))
    @rule(data=st.data(), refuse=st.booleans())
    def settles(self, data: st.DataObject, refuse: bool) -> None:
        person = self._one(data, _owing)
        owing = sorted(id for id, owed in person.owes.items() if owed)
        id = data.draw(st.sampled_from(owing))
        owed = person.owes[id]
        at = data.draw(st.integers(0, len(owed) - 1))
        _, ack = person.subscriptions[id]
        gone = owed[: at + 1] if ack == b"client" else [owed[at]]
        frame = owed[at].frame
        person.owes[id] = [copy for copy in owed if copy not in gone]
        command = b"NACK" if refuse and person.peer.version != b"1.0" else b"ACK"
        if person.sent is not None and data.draw(st.booleans()):
            person.settled += [(copy, command) for copy in gone]
            person.peer.settles(command, frame, b"transaction:t\n")
        else:
            self._settled(gone, command)
            person.peer.settles(command, frame)

    @precondition(lambda self: any(map(_closed, self.people)))
    @rule(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        person = self._one(data, _closed)
        person.sent = []
        person.peer.says(b"BEGIN\ntransaction:t\n\n\0")

    @precondition(lambda self: any(map(_open, self.people)))
    @rule(data=st.data(), where=st.sampled_from(QUEUES))
    def sends_in_a_transaction(self, data: st.DataObject, where: bytes) -> None:
        person = self._one(data, _open)
        assert person.sent is not None
        self.names += 1
        letter = Letter(b"%05d" % self.names, where)
        person.sent.append(letter)
        person.peer.says(b"SEND\ndestination:%b\ntransaction:t\n\n%b\0" % (where, letter.body))

    @precondition(lambda self: any(map(_open, self.people)))
    @rule(data=st.data())
    def commits(self, data: st.DataObject) -> None:
        person = self._one(data, _open)
        assert person.sent is not None
        for command in (b"ACK", b"NACK"):
            self._settled([copy for copy, how in person.settled if how == command], command)
        self.letters |= {letter.body: letter for letter in person.sent}
        person.sent, person.settled = None, []
        person.peer.says(b"COMMIT\ntransaction:t\n\n\0")

    @precondition(lambda self: any(map(_open, self.people)))
    @rule(data=st.data())
    def aborts(self, data: st.DataObject) -> None:
        person = self._one(data, _open)
        self._undoes(person)
        person.peer.says(b"ABORT\ntransaction:t\n\n\0")

    @precondition(lambda self: len(self.people) > 1)
    @rule(data=st.data(), polite=st.booleans())
    def goes(self, data: st.DataObject, polite: bool) -> None:
        person = self._one(data, _anybody)
        self._undoes(person)
        for owed in person.owes.values():
            self._returns(owed)
        person.owes.clear()
        self.people.remove(person)
        if polite:
            person.peer.says(b"DISCONNECT\n\n\0")
        else:
            person.peer.goes()
        self._hears(person)

    @rule(data=st.data())
    def is_slow(self, data: st.DataObject) -> None:
        self._one(data, _anybody).peer.is_slow()

    @rule(data=st.data())
    def is_quick_again(self, data: st.DataObject) -> None:
        self._one(data, _anybody).peer.is_quick_again()

    @rule()
    def a_moment_passes(self) -> None:
        self.scene.time_passes(0)

    # What must be true

    @invariant()
    def the_accounts_agree(self) -> None:
        for person in self.people:
            self._hears(person)
            assert person.peer.closed is None
        kept = sum(self.scene.kept.values())
        assert kept == sum(not letter.done for letter in self.letters.values())
        uncommitted = sum(len(person.sent or ()) for person in self.people)
        assert (self.scene.memory > 0) == (kept + uncommitted > 0)

    def teardown(self) -> None:
        """All leave; one comes for the rest, and nothing stays."""
        for person in self.people:
            # None shall be sent what another leaves behind.
            person.peer.is_slow()
        for person in self.people:
            person.peer.goes()
        rest = self.scene.client(b"1.1")
        for place in (*QUEUES, DEAD):
            expected = [each for each in self.letters.values() if not each.done and each.place == place]
            rest.subscribes(place, id=place)
            self.scene.time_passes(0)
            found = [
                (frame.rpartition(b"\n")[2], b"\nredelivered:true\n" in frame) for frame in rest.messages()
            ]
            assert sorted(found) == sorted((each.body, each.delivered) for each in expected)
            if place != DEAD:
                assert found == sorted(found, key=lambda pair: list(self.letters).index(pair[0]))
        rest.goes()
        assert (self.scene.memory, len(self.scene.broker.destinations), len(self.scene.broker)) == (0, 0, 0)

    # The model

    def _one(self, data: st.DataObject, fit: Callable[[Person], bool]) -> Person:
        fitting = [person for person in self.people if fit(person)]
        return fitting[data.draw(st.integers(0, len(fitting) - 1))]

    def _subscribe(self, person: Person, where: bytes, ack: bytes, window: int) -> None:
        self.names += 1
        id = b"s%d" % self.names
        person.subscriptions[id] = where, ack
        person.owes[id] = []
        person.peer.subscribes(where, ack, id, b"prefetch-count:%d\n" % window)

    def _letter(self, place: bytes) -> Letter:
        self.names += 1
        letter = Letter(b"%05d" % self.names, place)
        self.letters[letter.body] = letter
        return letter

    def _hears(self, person: Person) -> None:
        """The MESSAGEs that a client was sent are its own now, unless it left in the same breath."""
        for frame in person.peer.messages():
            assert frame.startswith(b"MESSAGE\n")
            letter = self.letters[frame.rpartition(b"\n")[2]]
            id = header(frame, b"subscription")
            where, ack = person.subscriptions[id]
            assert header(frame, b"destination") == where == letter.place
            assert (b"\nredelivered:true\n" in frame) == letter.delivered
            assert not letter.taken
            assert not letter.done
            letter.delivered = True
            if ack == b"auto":
                letter.done = True
            elif id in person.owes:
                letter.taken = True
                self.copies += 1
                person.owes[id].append(Copy(letter, frame, self.copies, id))

    def _returns(self, copies: list[Copy]) -> None:
        for copy in copies:
            copy.letter.taken = False

    def _settled(self, copies: list[Copy], command: bytes) -> None:
        self._returns(copies)
        for copy in copies:
            letter = copy.letter
            if command == b"ACK":
                letter.done = True
                continue
            letter.refusals += 1
            if letter.refusals == REFUSALS and letter.place != DEAD:
                letter.place = DEAD
                letter.delivered = False

    def _undoes(self, person: Person) -> None:
        """The open transaction never was."""
        for copy, _ in person.settled:
            owed = person.owes.get(copy.subscription)
            if owed is None:
                copy.letter.taken = False
            else:
                owed.append(copy)
                owed.sort(key=lambda each: each.number)
        person.sent, person.settled = None, []


@pytest.mark.hypothesis
def test_nothing_is_lost_and_nothing_doubled() -> None:
    """Through any SUBSCRIBE, SEND, ACK, NACK, transaction, slowness and loss."""
    run_state_machine_as_test(Account, settings=settings(stateful_step_count=60))
