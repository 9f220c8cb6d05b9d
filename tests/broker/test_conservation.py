"""Nothing is lost and nothing doubled, whatever clients of any version do in whatever order.

Hypothesis plays the clients; a model knows which client has each message. A message is delivered only while
nobody has it, marked as redelivered exactly when somebody had it before, and in the end everything that was not
consumed is still there, in order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

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
class Expected:
    """What the model knows of one message to a queue."""

    body: bytes
    place: bytes
    taken: bool = False
    delivered: bool = False
    done: bool = False
    refusals: int = 0


@dataclass(eq=False)
class Delivered:
    """One MESSAGE that has to be acknowledged. `number` says when it was delivered."""

    message: Expected
    frame: bytes
    number: int
    subscription: bytes


@dataclass(eq=False)
class Client:
    """What the model knows of one client: its socket, its subscriptions (where to, how acknowledged), the deliveries it
    has to acknowledge in the order of delivery, and what waits in its transaction `t`, if that is open.
    """

    peer: Peer
    subscriptions: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    owes: dict[bytes, list[Delivered]] = field(default_factory=dict)
    sent: list[Expected] | None = None
    settled: list[tuple[Delivered, bytes]] = field(default_factory=list)


def _anybody(_: Client) -> bool:
    return True


def _subscribed(client: Client) -> bool:
    return bool(client.subscriptions)


def _owing(client: Client) -> bool:
    return any(client.owes.values())


def _open(client: Client) -> bool:
    return client.sent is not None


def _closed(client: Client) -> bool:
    return client.sent is None


class Clients(RuleBasedStateMachine):
    """Clients at one broker with small bounds on turns and windows."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(burst=200, refusals=REFUSALS)
        self.clients = [Client(self.scene.client(version)) for version in (b"1.0", b"1.1", b"1.2")]
        self.messages: dict[bytes, Expected] = {}
        self.names = 0
        self.deliveries = 0
        for client, where, ack in zip(self.clients, (*QUEUES, DEAD), reversed(ACKS), strict=True):
            self._subscribe(client, where, ack, 3)

    # What clients do

    @precondition(lambda self: len(self.clients) < 4)
    @rule(version=st.sampled_from([b"1.0", b"1.1", b"1.2"]))
    def connects(self, version: bytes) -> None:
        self.clients.append(Client(self.scene.client(version)))

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
        client = self._one(data, _anybody)
        client.peer.sends_to(where, *[self._message(where).body for _ in range(count)])

    @precondition(lambda self: any(map(_subscribed, self.clients)))
    @rule(data=st.data())
    def unsubscribes(self, data: st.DataObject) -> None:
        client = self._one(data, _subscribed)
        id = data.draw(st.sampled_from(sorted(client.subscriptions)))
        self._returns(client.owes.pop(id))
        client.peer.sends(b"UNSUBSCRIBE\nid:%b\n\n\0" % id)
        self._receives(client)
        del client.subscriptions[id]

    @precondition(lambda self: any(map(_owing, self.clients)))
    @rule(data=st.data(), refuse=st.booleans())
    def acknowledges(self, data: st.DataObject, refuse: bool) -> None:
        client = self._one(data, _owing)
        owing = sorted(id for id, owed in client.owes.items() if owed)
        id = data.draw(st.sampled_from(owing))
        owed = client.owes[id]
        at = data.draw(st.integers(0, len(owed) - 1))
        _, ack = client.subscriptions[id]
        gone = owed[: at + 1] if ack == b"client" else [owed[at]]
        frame = owed[at].frame
        client.owes[id] = [delivery for delivery in owed if delivery not in gone]
        command = b"NACK" if refuse and client.peer.version != b"1.0" else b"ACK"
        if client.sent is not None and data.draw(st.booleans()):
            client.settled += [(delivery, command) for delivery in gone]
            client.peer.acknowledges(command, frame, b"transaction:t\n")
        else:
            self._settled(gone, command)
            client.peer.acknowledges(command, frame)

    @precondition(lambda self: any(map(_closed, self.clients)))
    @rule(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        client = self._one(data, _closed)
        client.sent = []
        client.peer.sends(b"BEGIN\ntransaction:t\n\n\0")

    @precondition(lambda self: any(map(_open, self.clients)))
    @rule(data=st.data(), where=st.sampled_from(QUEUES))
    def sends_in_a_transaction(self, data: st.DataObject, where: bytes) -> None:
        client = self._one(data, _open)
        assert client.sent is not None
        self.names += 1
        message = Expected(b"%05d" % self.names, where)
        client.sent.append(message)
        client.peer.sends(b"SEND\ndestination:%b\ntransaction:t\n\n%b\0" % (where, message.body))

    @precondition(lambda self: any(map(_open, self.clients)))
    @rule(data=st.data())
    def commits(self, data: st.DataObject) -> None:
        client = self._one(data, _open)
        assert client.sent is not None
        for command in (b"ACK", b"NACK"):
            self._settled([delivery for delivery, how in client.settled if how == command], command)
        self.messages |= {message.body: message for message in client.sent}
        client.sent, client.settled = None, []
        client.peer.sends(b"COMMIT\ntransaction:t\n\n\0")

    @precondition(lambda self: any(map(_open, self.clients)))
    @rule(data=st.data())
    def aborts(self, data: st.DataObject) -> None:
        client = self._one(data, _open)
        self._undoes(client)
        client.peer.sends(b"ABORT\ntransaction:t\n\n\0")

    @precondition(lambda self: len(self.clients) > 1)
    @rule(data=st.data(), polite=st.booleans())
    def is_lost(self, data: st.DataObject, polite: bool) -> None:
        client = self._one(data, _anybody)
        self._undoes(client)
        for owed in client.owes.values():
            self._returns(owed)
        client.owes.clear()
        self.clients.remove(client)
        if polite:
            client.peer.sends(b"DISCONNECT\n\n\0")
        else:
            client.peer.is_lost()
        self._receives(client)

    @rule(data=st.data())
    def stops_reading(self, data: st.DataObject) -> None:
        self._one(data, _anybody).peer.stops_reading()

    @rule(data=st.data())
    def reads_again(self, data: st.DataObject) -> None:
        self._one(data, _anybody).peer.reads_again()

    @rule()
    def a_moment_passes(self) -> None:
        self.scene.time_passes(0)

    # What must be true

    @invariant()
    def the_model_agrees(self) -> None:
        for client in self.clients:
            self._receives(client)
            assert client.peer.closed is None
        kept = sum(self.scene.kept.values())
        assert kept == sum(not message.done for message in self.messages.values())
        uncommitted = sum(len(client.sent or ()) for client in self.clients)
        assert (self.scene.memory > 0) == (kept + uncommitted > 0)

    def teardown(self) -> None:
        """All leave; one comes for the rest, and nothing stays."""
        for client in self.clients:
            # None shall be sent what another leaves behind.
            client.peer.stops_reading()
        for client in self.clients:
            client.peer.is_lost()
        rest = self.scene.client(b"1.1")
        for place in (*QUEUES, DEAD):
            expected = [each for each in self.messages.values() if not each.done and each.place == place]
            rest.subscribes(place, id=place)
            self.scene.time_passes(0)
            found = [
                (frame.rpartition(b"\n")[2], b"\nredelivered:true\n" in frame) for frame in rest.messages()
            ]
            assert sorted(found) == sorted((each.body, each.delivered) for each in expected)
            if place != DEAD:
                assert found == sorted(found, key=lambda pair: list(self.messages).index(pair[0]))
        rest.is_lost()
        assert (self.scene.memory, len(self.scene.broker.destinations), len(self.scene.broker)) == (0, 0, 0)

    # The model

    def _one(self, data: st.DataObject, fit: Callable[[Client], bool]) -> Client:
        fitting = [client for client in self.clients if fit(client)]
        return fitting[data.draw(st.integers(0, len(fitting) - 1))]

    def _subscribe(self, client: Client, where: bytes, ack: bytes, window: int) -> None:
        self.names += 1
        id = b"s%d" % self.names
        client.subscriptions[id] = where, ack
        client.owes[id] = []
        client.peer.subscribes(where, ack, id, b"prefetch-count:%d\n" % window)

    def _message(self, place: bytes) -> Expected:
        self.names += 1
        message = Expected(b"%05d" % self.names, place)
        self.messages[message.body] = message
        return message

    def _receives(self, client: Client) -> None:
        """The MESSAGEs that a client was sent are its own now, unless it left in the same breath."""
        for frame in client.peer.messages():
            assert frame.startswith(b"MESSAGE\n")
            message = self.messages[frame.rpartition(b"\n")[2]]
            id = header(frame, b"subscription")
            where, ack = client.subscriptions[id]
            assert header(frame, b"destination") == where == message.place
            assert (b"\nredelivered:true\n" in frame) == message.delivered
            assert not message.taken
            assert not message.done
            message.delivered = True
            if ack == b"auto":
                message.done = True
            elif id in client.owes:
                message.taken = True
                self.deliveries += 1
                client.owes[id].append(Delivered(message, frame, self.deliveries, id))

    def _returns(self, deliveries: list[Delivered]) -> None:
        for delivery in deliveries:
            delivery.message.taken = False

    def _settled(self, deliveries: list[Delivered], command: bytes) -> None:
        self._returns(deliveries)
        for delivery in deliveries:
            message = delivery.message
            if command == b"ACK":
                message.done = True
                continue
            message.refusals += 1
            if message.refusals == REFUSALS and message.place != DEAD:
                message.place = DEAD
                message.delivered = False

    def _undoes(self, client: Client) -> None:
        """The open transaction never was."""
        for delivery, _ in client.settled:
            owed = client.owes.get(delivery.subscription)
            if owed is None:
                delivery.message.taken = False
            else:
                owed.append(delivery)
                owed.sort(key=lambda each: each.number)
        client.sent, client.settled = None, []


def test_nothing_is_lost_and_nothing_doubled() -> None:
    """Through any SUBSCRIBE, SEND, ACK, NACK, transaction, slowness and loss."""
    run_state_machine_as_test(Clients, settings=settings(stateful_step_count=60))
