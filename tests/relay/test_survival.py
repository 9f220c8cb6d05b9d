"""Brokers are killed, stopped, cut off and sent away at random, and the clients do not notice.

Hypothesis plays clients and fate in front of embedded brokers, see `survival`. What must hold however it goes:

    no client gets an ERROR or is disconnected, but for a transaction that nobody can vouch for any more
    whatever the relay took was taken by a broker, and what a receipt was given for before the receipt was
    what one broker takes of one client for one destination is in order; what may be a duplicate is marked
    each receipt comes once, a transaction happens as a whole or not at all
    what was delivered and not acknowledged is not lost
    what the relay keeps is bounded, and in the end it keeps nothing
    what the journal would be told agrees with itself; with a trace, each message has one, which no client sees
"""

from collections.abc import Callable
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stomprelay.relay import inputs
from stomprelay.relay.model.group import Broker, Checks
from tests.playbook import VERSIONS, listener
from tests.relay.failing import movable
from tests.relay.reference import Pairs
from tests.relay.survival import BEAT, Caller, Copy, Letter, Node, Order, Transaction, World

QUEUES: Final = (b"/queue/a", b"/queue/b")
MODES: Final = (b"auto", b"client", b"client-individual")
PRODUCTS: Final = ("generic", "rabbitmq", "activemq")
CHUNK: Final = 1000
"""More octets than any client here says in one breath."""
KINDS: Final = (
    *("send", "send", "send", "subscribe", "settle", "settle", "settle", "settle"),
    *("begin", "begin", "inside", "inside", "commit", "abort", "unsubscribe"),
)
FATES: Final = (
    *("kill", "upgrade", "start", "start", "stop", "continue", "continue"),
    *("pause", "pause", "resume", "resume", "resume"),
)
_BREATH: Final = st.lists(st.sampled_from(KINDS), min_size=1, max_size=10)
_FLOW: Final = st.sampled_from([False, False, True])
_CHUNK: Final = st.one_of(st.just(10_000), st.integers(0, 300))
_UP: Final = st.sampled_from([0, 30, 80, 150, 1000, 1000])
_DOWN: Final = st.sampled_from([0, 40, 100, 1000, 1000])


def _talking(caller: Caller) -> bool:
    return caller.talks


class Survival(RuleBasedStateMachine):
    """Up to three clients, two or three brokers that share nothing, and a relay with `confirm`."""

    world: World

    # The scene

    @initialize(
        nodes=st.lists(
            st.tuples(st.sampled_from(VERSIONS), st.sampled_from(PRODUCTS)), min_size=2, max_size=3
        ),
        clients=st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=2),
        bounds=st.tuples(st.sampled_from([300, 1 << 20]), st.sampled_from([4, 1000])),
        randomize=st.booleans(),
        trace=st.booleans(),
    )
    def begins_all(
        self,
        nodes: list[tuple[bytes, str]],
        clients: list[bytes],
        bounds: tuple[int, int],
        randomize: bool,
        trace: bool,
    ) -> None:
        self.buffer, unacknowledged = bounds
        over = movable(
            len(nodes),
            options={"longest_delay": 1.0, "randomize": randomize, "jitter": 0.2},
            confirm=True,
            resend_buffer=self.buffer,
            heart_beat=BEAT,
            connect_timeout=3.0,
            checks=Checks(longest_pause=2.0),
        )
        front = listener(over, unacknowledged=unacknowledged, heart_beat=BEAT, trace=trace)
        self.world = World(front, [Node(b"abc"[at : at + 1], *each) for at, each in enumerate(nodes)])
        for version in clients:
            self.world.calls(version)
        self.world.flows()

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return self.world.front.upstream.brokers

    # What clients do

    @precondition(lambda self: len(self.world.callers) < 3)
    @rule(version=st.sampled_from(VERSIONS))
    def comes(self, version: bytes) -> None:
        self.world.calls(version)
        self.world.flows()

    @precondition(lambda self: self._any(_talking))
    @rule(data=st.data(), kinds=_BREATH, flow=_FLOW)
    def says(self, data: st.DataObject, kinds: list[str], flow: bool) -> None:
        """One client says so many things in one breath."""
        caller = self._one(data, _talking)
        acts: dict[str, Callable[[Caller, st.DataObject], None]] = {
            "subscribe": self._subscribes,
            "unsubscribe": self._unsubscribes,
            "send": self._sends,
            "settle": self._settles,
            "begin": self._begins,
            "inside": self._sends_inside,
            "commit": self._commits,
            "abort": self._aborts,
        }
        caller.breathing = data.draw(st.booleans())
        for kind in kinds:
            acts[kind](caller, data)
        if caller.breathing:
            caller.breathes(data.draw(_CHUNK))
        self._flows(flow)

    @precondition(lambda self: self._any(_talking))
    @rule(data=st.data(), kinds=_BREATH, flow=_FLOW)
    def says_more(self, data: st.DataObject, kinds: list[str], flow: bool) -> None:
        """The same: talk is most of what there is."""
        self.says(data, kinds, flow)

    @precondition(lambda self: self._any(_talking))
    @rule(data=st.data(), kinds=_BREATH, cut=st.booleans(), up=_UP, down=_DOWN)
    def is_interrupted(self, data: st.DataObject, kinds: list[str], cut: bool, up: int, down: int) -> None:
        """Its broker dies, or its connection breaks, with what it just said in flight."""
        self.says(data, kinds, False)
        pipes = [pipe for node in self.world.nodes for pipe in node.pipes if pipe.up and not pipe.dead]
        if pipes:
            pipe = pipes[0]
            if cut:
                self.world.cuts([pipe], up, down)
            else:
                self.world.kills(pipe.node, up, down)
                pipe.node.refusing = data.draw(st.booleans())

    @precondition(lambda self: self._any(_talking))
    @rule(data=st.data(), kinds=_BREATH, cut=st.booleans(), up=_UP, down=_DOWN)
    def is_interrupted_again(
        self, data: st.DataObject, kinds: list[str], cut: bool, up: int, down: int
    ) -> None:
        """The same: it is what all this is about."""
        self.is_interrupted(data, kinds, cut, up, down)

    @precondition(lambda self: self._any(_talking))
    @rule(data=st.data(), polite=st.booleans(), flow=_FLOW)
    def goes(self, data: st.DataObject, polite: bool, flow: bool) -> None:
        caller = self._one(data, _talking)
        if polite:
            self._leave(caller)
        else:
            self._vanish(caller)
        self._flows(flow)

    # What fate does

    @rule(data=st.data(), fate=st.sampled_from(FATES), up=_UP, down=_DOWN)
    def suffers(self, data: st.DataObject, fate: str, up: int, down: int) -> None:
        """Something happens to one broker: of what is in flight so many octets each still arrive."""
        world = self.world
        at = data.draw(st.integers(0, len(world.nodes) - 1))
        node, broker = world.nodes[at], self.brokers[at]
        match fate:
            case "kill":
                world.kills(node, up, down)
            case "start":
                node.refusing = False
            case "upgrade":
                world.kills(node, up, down)
                node.refusing = False
                node.version = data.draw(st.sampled_from(VERSIONS))
                node.product = data.draw(st.sampled_from(PRODUCTS))
            case "stop":
                node.stalled = True
            case "continue":
                node.stalled = False
            case "pause":
                world.pauses(broker, data.draw(st.sampled_from([0.0, 0.5, 5.0])))
            case "resume":
                world.resumes(broker)
        if data.draw(_FLOW):
            world.flows()

    @rule(data=st.data(), up=_UP, down=_DOWN)
    def some_octets_arrive(self, data: st.DataObject, up: int, down: int) -> None:
        pipes = [pipe for caller in self.world.callers for pipe in caller.pipes if pipe.up or pipe.down]
        if pipes:
            pipe = data.draw(st.sampled_from(pipes))
            self.world.rises(pipe, up)
            self.world.falls(pipe, down)

    @rule()
    def all_octets_arrive(self) -> None:
        self.world.flows()

    @rule(seconds=st.sampled_from([0.0, 0.02, 0.4, 1.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.passes(seconds)

    # What must be true

    @invariant()
    def nobody_complains(self) -> None:
        if not hasattr(self, "world"):
            return
        for caller in self.world.callers:
            assert caller.wrongs == [], caller.notes
            if caller.closed:
                assert caller.failed or caller.leaving or caller.gone, caller.notes
            for link in caller.relay.links:
                assert link.resender is not None
                assert link.resender.unconfirmed.size <= self.buffer + CHUNK
        for broker in self.brokers:
            assert broker.health.sessions >= 0

    def teardown(self) -> None:
        """All is well again: whoever is still there settles what it has, and goes."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for node, broker in zip(world.nodes, self.brokers, strict=True):
            node.refusing = node.stalled = False
            world.resumes(broker)
        world.passes(12.0)  # long enough for one that has to leave, and is not confirmed that
        for caller in filter(_talking, world.callers):
            assert caller.relay.links[0].up, caller.notes
            while caller.open:
                self._abort(caller, 0, receipt=True)
        world.passes(1.0)
        for caller in list(filter(_talking, world.callers))[::2]:
            while any(order.owed for order in caller.orders):
                for order in caller.orders:
                    if order.owed:
                        self._settle(caller, order.owed[-1], None, refuse=False, receipt=True)
                world.passes(0.1)
            session = caller.relay.session
            assert session is not None
            ledger = session.ledger
            if caller.tidy:
                assert ledger.awaited == 0
                # Of what was delivered again, the client may still name the lost copy.
                assert len(ledger) == 0 or ledger.unsure
        for caller in filter(_talking, world.callers):
            self._leave(caller)
        world.passes(15.0)
        self.nobody_complains()
        for caller in world.callers:
            assert caller.over, caller.notes
            # A client that goes is told of when it goes, and again when all that it said is delivered.
            assert len(caller.ends) in ((1, 2) if caller.gone else (1,)), caller.notes
            assert caller.resent == caller.counters["frames_resent"]
            assert {receipt.decode() for receipt in caller.given} >= set(caller.answers)
        for broker in self.brokers:
            assert (broker.health.sessions, broker.health.coming) == (0, 0)
        self._audit()

    def _audit(self) -> None:
        world = self.world
        kept = {body for node in world.nodes for body in node.drained(world.now)}
        for caller in world.callers:
            if not (caller.failed or caller.gone):
                assert sorted(caller.given) == sorted(caller.receipts), caller.notes
            for letter in caller.letters:
                taken = world.has_taken(letter.body)
                if letter.order is None:
                    assert not taken, "it was never committed"
                elif letter.read and not caller.failed and not self._dropped(caller, letter):
                    assert taken, (letter.body, caller.notes)
                if taken:
                    seen = any(letter.body in each.seen for each in world.callers)
                    assert seen or letter.body in kept or letter.body in world.spilled, letter.body
        for body in set().union(*(caller.seen for caller in world.callers)):
            if not any(body in each.settled or body in each.consumed for each in world.callers):
                assert body in kept or body in world.spilled, f"{body!r} was never acknowledged"
        self._orders()
        self._traces()

    def _traces(self) -> None:
        """Each message has one trace, however often it was said and to whomever, and shares it with none."""
        traces: dict[bytes, set[bytes]] = {}
        for node in self.world.nodes:
            for body, found in node.traces.items():
                traces.setdefault(body, set()).update(found)
        given = [trace for found in traces.values() for trace in found]
        assert {len(found) for found in traces.values()} <= {int(self.world.front.trace)}
        assert len(given) == len(set(given))

    @staticmethod
    def _dropped(caller: Caller, letter: Letter) -> bool:
        """Whether it belongs to a transaction that could not be committed, and its client was not there to be told; or
        no broker confirmed anything.
        """
        transaction = letter.transaction
        if not caller.gone:
            return False
        if transaction is None or caller.abandoned:
            return caller.abandoned
        return caller.doomed(transaction) or caller.losses > transaction.losses

    def _orders(self) -> None:
        letters = {letter.body: letter for caller in self.world.callers for letter in caller.letters}
        found: set[bytes] = set()
        for node in self.world.nodes:
            last: dict[tuple[bytes, bytes], int] = {}
            here: set[bytes] = set()
            for place, body, marked in node.taken:
                letter = letters[body]
                order = letter.order
                assert place in (letter.destination, b"/queue/DLQ")
                if place != letter.destination or body in here:
                    assert place != letter.destination or marked, f"{body!r} is there twice, without a mark"
                    continue
                here.add(body)
                assert order is not None
                way = body.partition(b".")[0], place
                # What a broker had taken and lost when it was killed comes behind what it had on its disk.
                assert order > last.get(way, 0) or body in node.forgotten, f"{body!r} came too late"
                last[way] = max(order, last.get(way, 0))
            again = here & found
            found |= here
            for _, body, marked in node.taken:
                assert marked or body not in again or self._marked(body), f"{body!r}: no mark anywhere"

    def _marked(self, body: bytes) -> bool:
        return any(body == each and mark for node in self.world.nodes for _, each, mark in node.taken)

    # What a client says

    def _subscribes(self, caller: Caller, data: st.DataObject) -> None:
        where = data.draw(st.sampled_from(QUEUES))
        id: bytes | None = b"s%d" % caller.number()
        if not caller.names and all(order.destination != where for order in caller.orders):
            id = None
        elif any(order.id is None and order.destination == where for order in caller.orders):
            return  # without a name two on one destination could not be told apart
        order = Order(id, where, data.draw(st.sampled_from(MODES)))
        caller.orders.append(order)
        named = [] if id is None else [(b"id", id)]
        lines = [*named, (b"destination", where), (b"ack", order.mode)]
        caller.say(b"SUBSCRIBE", lines + self._asked(caller, order, data))

    def _unsubscribes(self, caller: Caller, data: st.DataObject) -> None:
        orders = [each for each in caller.orders if each.open]
        if orders:
            order = data.draw(st.sampled_from(orders))
            order.open = False
            caller.tidy = caller.tidy and not order.owed
            order.owed.clear()
            named = (b"destination", order.destination) if order.id is None else (b"id", order.id)
            caller.say(b"UNSUBSCRIBE", [named, *self._asked(caller, order, data)])

    def _sends(self, caller: Caller, data: st.DataObject) -> None:
        self._send(caller, data.draw(st.sampled_from(QUEUES)), None, receipt=data.draw(st.booleans()))

    def _sends_inside(self, caller: Caller, data: st.DataObject) -> None:
        if caller.open:
            transaction = data.draw(st.sampled_from(list(caller.open.values())))
            where = data.draw(st.sampled_from(QUEUES))
            self._send(caller, where, transaction, receipt=data.draw(st.booleans()))

    def _settles(self, caller: Caller, data: st.DataObject) -> None:
        orders = [each for each in caller.orders if each.owed]
        if orders:
            copy = data.draw(st.sampled_from(data.draw(st.sampled_from(orders)).owed))
            inside = data.draw(st.sampled_from([None, *caller.open.values()]))
            can = all(pipe.version != b"1.0" for pipe in caller.pipes if not pipe.dead)
            refuse = caller.names and caller.heard_at_once and can and data.draw(st.booleans())
            self._settle(caller, copy, inside, refuse=refuse, receipt=data.draw(st.booleans()))

    def _begins(self, caller: Caller, data: st.DataObject) -> None:
        if len(caller.open) < 2:
            transaction = Transaction(b"t%d" % caller.number(), caller.losses)
            caller.open[transaction.name] = transaction
            lines = [(b"transaction", transaction.name), *self._asked(caller, b"BEGIN", data)]
            self._grows(caller, transaction, caller.say(b"BEGIN", lines))

    def _commits(self, caller: Caller, data: st.DataObject) -> None:
        if caller.open:
            transaction = caller.open.pop(data.draw(st.sampled_from(list(caller.open))))
            for letter in transaction.letters:
                letter.order = caller.number()
            caller.settled |= {copy.frame.body for copy, by_ack, _ in transaction.copies if by_ack}
            # One that is too large to be kept does not survive its broker.
            if not transaction.large:
                transaction.losses = caller.losses
            caller.committing.append(transaction)
            lines = [(b"transaction", transaction.name), *caller.asks(transaction)]
            caller.say(b"COMMIT", lines, b"", [transaction, *transaction.letters])

    def _aborts(self, caller: Caller, data: st.DataObject) -> None:
        if caller.open:
            self._abort(caller, data.draw(st.integers(0, 1)), receipt=data.draw(st.booleans()))

    def _asked(self, caller: Caller, what: object, data: st.DataObject) -> Pairs:
        return caller.asks(what) if data.draw(st.booleans()) else []

    # The model

    def _any(self, fit: Callable[[Caller], bool]) -> bool:
        return any(map(fit, self.world.callers))

    def _one(self, data: st.DataObject, fit: Callable[[Caller], bool]) -> Caller:
        return data.draw(st.sampled_from([each for each in self.world.callers if fit(each)]))

    def _flows(self, now: bool) -> None:
        if now:
            self.world.flows()

    def _send(self, caller: Caller, where: bytes, transaction: Transaction | None, *, receipt: bool) -> None:
        number = caller.number()
        body = b"%b.%03d" % (caller.name, number)
        letter = Letter(body, where, None, transaction, None if transaction else number)
        caller.letters.append(letter)
        headers = [(b"destination", where), *(caller.asks(letter) if receipt else [])]
        if transaction is not None:
            headers.append((b"transaction", transaction.name))
            transaction.letters.append(letter)
        octets = caller.say(b"SEND", headers, body, [] if transaction else [letter])
        if transaction is not None:
            self._grows(caller, transaction, octets)

    def _grows(self, caller: Caller, transaction: Transaction, octets: int) -> None:
        """All that are open have one bound together."""
        transaction.octets += octets
        if sum(each.octets for each in caller.open.values()) > self.buffer:
            transaction.large = True

    def _settle(
        self, caller: Caller, copy: Copy, transaction: Transaction | None, *, refuse: bool, receipt: bool
    ) -> None:
        frame, order = copy.frame, copy.order
        message_id = frame.first(b"message-id") or b""
        if caller.version == b"1.2":
            named = [(b"id", frame.first(b"ack") or b"")]
        else:
            # The oldest delivery of that name is meant.
            candidates = [
                each
                for other in (caller.orders if caller.version == b"1.0" else [order])
                for each in other.owed
                if each.frame.first(b"message-id") == message_id
            ]
            copy = min(candidates, key=lambda each: each.number)
            order = copy.order
            named = [(b"message-id", message_id)]
        if caller.version == b"1.1":
            named.append((b"subscription", order.id or b""))
        at = order.owed.index(copy)
        gone = order.owed[: at + 1] if order.mode == b"client" else [copy]
        order.owed = [each for each in order.owed if each not in gone]
        if transaction is not None:
            transaction.copies += [(each, not refuse, each is copy) for each in gone]
            named.append((b"transaction", transaction.name))
        elif not refuse:
            caller.settled |= {each.frame.body for each in gone}
        asked = caller.asks(b"ACK") if receipt else []
        caller.say(b"NACK" if refuse else b"ACK", [*named, *asked])

    def _abort(self, caller: Caller, at: int, *, receipt: bool) -> None:
        name = list(caller.open)[at % len(caller.open)]
        transaction = caller.open.pop(name)
        for copy, _, _ in transaction.copies:
            caller.tidy = caller.tidy and copy.order.open
            if copy.order.open:
                copy.order.owed.append(copy)
                copy.order.owed.sort(key=lambda each: each.number)
        asked = caller.asks(b"ABORT") if receipt else []
        caller.say(b"ABORT", [(b"transaction", name), *asked])

    def _leave(self, caller: Caller) -> None:
        for transaction in list(caller.open.values()):
            caller.open.pop(transaction.name)
        caller.say(b"DISCONNECT", caller.asks(b"DISCONNECT"))
        caller.leaving = True

    def _vanish(self, caller: Caller) -> None:
        caller.gone = True
        caller.unread.clear()
        caller.perform(
            caller.relay.handle(inputs.Lost(caller.relay.client, "Connection reset by peer"), self.world.now)
        )


def test_clients_survive_their_brokers() -> None:
    """Through any conversation and any fault."""
    run_state_machine_as_test(
        Survival, settings=settings(max_examples=settings().max_examples, stateful_step_count=60)
    )
