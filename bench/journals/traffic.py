"""The rounds of a world that is made up: one producer's chunk is sent, confirmed, delivered, and answered; between
rounds brokers are lost, clients go and come back, and relays end or die.

All times here are the world's; each relay adds what its clock is ahead by. Nothing overlaps: what a round sends is
answered when it is over, but for what a consumer owes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Final

from bench.journals.client import AUTO, CUMULATIVE, INDIVIDUAL, Alike, Batch, Client, Owed
from bench.journals.relay import Relay
from bench.journals.truth import Outage, Truth
from bench.journals.world import SECOND, START, World

BACKLOG: Final = "/queue/backlog"
_POOL: Final = 1 << 14
_MODES: Final = (INDIVIDUAL, INDIVIDUAL, AUTO, INDIVIDUAL, INDIVIDUAL, CUMULATIVE, INDIVIDUAL)
_SUBSCRIBERS: Final = 5
_PREFETCH: Final = 50
"""A consumer that owes more answers some."""
_ASKS: Final = 0.8
"""The share of producers that ask for receipts."""
_REFUSED_AGAIN: Final = 0.7
"""The share of refused messages that come again."""
_APART: Final = 20 * SECOND
"""Between outages, so that none is taken for a part of another one."""
_BIG: Final = 64
"""Messages of the largest chunk."""
_CLIENTS, _BROKERS, _QUEUES, _TOPICS = 12, 3, 40, 5
"""Producers of each relay, and as many consumers; the others in all. Some topics have no subscriber."""
_PUBLISHED, _HOT, _ZIPF = 0.05, 0.9, 1.2
"""The chance that a message goes to a topic; else to the first queue; else to one of the others by Zipf's law."""
_BURST, _SMALLEST, _TAIL, _LARGEST = 12, 120, 1.2, 1 << 20
"""About how many messages come in a chunk; octets of bodies, by Pareto's law."""
_TRANSACTIONS, _ABORTED = 0.05, 0.2
"""The share of chunks in a transaction, and of these of those in vain."""


def make(folder: Path, world: World) -> Truth:
    """Write the segments of a world into an empty folder; answers what is in them."""
    return Traffic(folder, world).go()


class Traffic:
    """A world of which a journal is made: call `go` once."""

    def __init__(self, folder: Path, world: World) -> None:
        self._world = world
        self._random = random = Random(world.seed)
        self._truth = truth = Truth()
        self._now = START
        self._gap = SECOND / world.rate
        self._serial = self._delivery = self._transaction = 0
        self._sizes = [min(int(_SMALLEST * random.paretovariate(_TAIL)), _LARGEST) for _ in range(_POOL)]
        self._bursts = [min(1 + int(random.expovariate(1 / _BURST)), _BIG) for _ in range(_POOL)]
        self._round = 0
        self._brokers = [f"broker-{number}:61613" for number in range(_BROKERS)]
        self._relays = [
            Relay(
                folder, f"{world.relay}{at + 1}", at, world.seed, round(random.uniform(-1, 1) * world.skew * SECOND),
                world.segment, world.age, truth,
            )
            for at in range(world.relays)
        ]  # fmt: skip
        self._producers = self._clients("p")
        self._asking = self._producers[: max(world.relays, round(len(self._producers) * _ASKS))]
        self._asks = frozenset(self._asking)
        self._consumers = self._clients("c")
        for at, each in enumerate(self._consumers):
            each.mode = _MODES[at % len(_MODES)]
        self._queues = [f"/queue/{number:03d}" for number in range(_QUEUES)]
        self._others = [*accumulate(1 / each**_ZIPF for each in range(1, _QUEUES))]
        self._topics = [f"/topic/{number:02d}" for number in range(_TOPICS)]
        self._published = frozenset(self._topics)
        self._subscribers: dict[str, list[Client]] = {}
        self._subscribe()
        runs = [(relay, run) for relay in range(world.relays) for run in range(1, world.runs + 1)]
        self._deadly = set(random.sample(runs, world.deaths))

    def _clients(self, letter: str) -> list[Client]:
        """So many for each relay, in turn."""
        numbers = range(_CLIENTS * len(self._relays))
        base = 0 if letter == "p" else 30_000
        return [
            Client(
                self._relays[at % len(self._relays)], f"{letter}{at:03d}", base + at, self._brokers, self._truth,
                trace=self._world.trace, kept=self._world.bodies,
            )
            for at in numbers
        ]  # fmt: skip

    def _subscribe(self) -> None:
        """All to the hot queue, a few to each other one, none to some topics."""
        count = len(self._consumers)
        wanted = {self._queues[0]: range(count)}
        wanted |= {name: range(at, at + 2) for at, name in enumerate(self._queues[1:])}
        wanted |= {name: range(at * 7, at * 7 + at % _SUBSCRIBERS) for at, name in enumerate(self._topics)}
        for name, places in wanted.items():
            self._subscribers[name] = [self._consumers[at] for at in sorted({at % count for at in places})]
            for consumer in self._subscribers[name]:
                consumer.subscriptions[name] = len(consumer.subscriptions)

    # From begin to end

    def go(self) -> Truth:
        """Make all of it."""
        for relay in self._relays:
            self._begins(relay)
        for begun in range(0, self._world.backlog, _BIG):
            self._piles(min(_BIG, self._world.backlog - begun))
        plan = self._plan()
        while self._truth.records < self._world.records:
            if plan and self._truth.records >= plan[-1][0]:
                plan.pop()[1]()
            else:
                self._passes()
        for _, happens in reversed(plan):
            happens()
        for at, relay in enumerate(self._relays):
            self._stops(at, relay)
            for each in self._of(relay):
                for owed in each.owed:
                    self._truth.became(owed.destination, "returned", 1)
        self._truth.end = self._now + max(relay.skew for relay in self._relays)
        return self._truth

    def _plan(self) -> list[tuple[int, Callable[[], None]]]:
        """What happens besides, and after how many records; the first last."""
        world, begun = self._world, self._truth.records
        left = world.records - begun
        plan: list[tuple[int, Callable[[], None]]] = []

        def at(share: float, happens: Callable[[], None]) -> None:
            plan.append((begun + int(share * left), happens))

        for number in range(world.failovers):
            at((number + 0.5) / world.failovers, partial(self._fails, number))
        for number in range(world.comings):
            at((number + 0.7) / world.comings, self._comes)
        for run in range(1, world.runs):
            for place, relay in enumerate(self._relays):
                share = (run - 1 + (place + 1) / (world.relays + 0.5)) / (world.runs - 0.5)
                at(min(share, 0.99), partial(self._restarts, place, relay))
        return sorted(plan, key=lambda each: -each[0])

    def _of(self, relay: Relay) -> list[Client]:
        return [each for each in (*self._producers, *self._consumers) if each.relay is relay]

    def _tick(self, most: float = 1.0) -> int:
        """A while later: up to as long as `most` messages take."""
        self._now += 1 + int(self._random.random() * most * self._gap)
        return self._now

    def _begins(self, relay: Relay) -> None:
        relay.begin(self._tick())
        for each in self._of(relay):
            each.connect(self._tick())

    def _restarts(self, at: int, relay: Relay) -> None:
        self._stops(at, relay)
        self._now += SECOND * 2
        self._begins(relay)
        for each in self._of(relay):
            self._returns(each)

    def _stops(self, at: int, relay: Relay) -> None:
        self._now += SECOND
        if (at, relay.runs) not in self._deadly:
            for each in self._of(relay):
                each.stopped(self._tick(0.1))
            relay.end(self._tick())
            return
        asking = next(each for each in self._asking if each.relay is relay)
        vain = self._sends(asking, self._queue(), 1 + self._random.randrange(8))
        self._truth.became(vain.destination, "unconfirmed", len(vain.numbers))
        torn = asking.sending(self._made(asking, vain.destination, 3, receipts=True))
        relay.die(self._now, asking.client.torn(self._tick(), torn))

    # Rounds

    def _passes(self) -> None:
        """One chunk, from its SENDs to the answers."""
        random = self._random
        self._round += 1
        count = self._bursts[self._round % _POOL]
        end = self._now + int(count * self._gap)
        producer = self._producers[int(random.random() * len(self._producers))]
        if random.random() < _PUBLISHED:
            destination = self._topics[int(random.random() * len(self._topics))]
        else:
            destination = self._queue()
        if random.random() < _TRANSACTIONS:
            batch = self._sends_together(producer, destination, count)
        else:
            batch = self._sends(producer, destination, count)
            if batch.receipts:
                self._confirms(producer, batch)
        if batch is not None:
            self._delivers(batch)
        self._now = max(self._now, end)

    def _queue(self) -> str:
        random = self._random
        if random.random() < _HOT:
            return self._queues[0]
        return random.choices(self._queues[1:], cum_weights=self._others)[0]

    def _made(self, producer: Client, destination: str, count: int, *, receipts: bool) -> Batch:
        """So many further messages."""
        first = self._serial
        self._serial += count
        at = first % (_POOL - _BIG)
        sizes = self._sizes[at : at + count]
        return Batch(producer.session, destination, range(first, first + count), sizes, receipts)

    def _sends(self, producer: Client, destination: str, count: int) -> Batch:
        batch = self._made(producer, destination, count, receipts=producer in self._asks)
        producer.sends(self._tick(), batch)
        self._count(batch)
        return batch

    def _count(self, batch: Batch) -> None:
        self._truth.destinations[batch.destination] += len(batch.numbers)
        self._truth.octets += sum(batch.sizes)

    def _confirms(self, producer: Client, batch: Batch) -> None:
        producer.confirmed(self._tick(), batch.numbers)
        self._truth.receipts += len(batch.numbers)

    def _sends_together(self, producer: Client, destination: str, count: int) -> Batch | None:
        """The same in a transaction; None where it is aborted."""
        batch = self._made(producer, destination, count, receipts=False)
        self._transaction += 1
        inside = b"transaction:t-%d\n" % self._transaction
        aborted = self._random.random() < _ABORTED
        ends = b"ABORT\n%b\n" if aborted else b"COMMIT\n%breceipt:t-%d\n\n"
        producer.client.came(
            self._tick(),
            Alike(b"BEGIN\n%b\n" % inside, [()]),
            producer.sending(batch, inside),
            Alike(ends % (inside if aborted else (inside, self._transaction)), [()]),
        )
        self._count(batch)
        if aborted:
            self._truth.became(destination, "aborted", count)
            return None
        producer.upstream.came(self._tick(), Alike(b"RECEIPT\nreceipt-id:t-%d\n\n", [(self._transaction,)]))
        return batch

    def _piles(self, count: int) -> None:
        """Messages that nobody receives."""
        producer = self._asking[int(self._random.random() * len(self._asking))]
        batch = self._sends(producer, BACKLOG, count)
        self._confirms(producer, batch)
        self._truth.became(BACKLOG, "undelivered", count)

    def _delivers(self, batch: Batch) -> None:
        destination, count = batch.destination, len(batch.numbers)
        who = self._subscribers[destination]
        if destination not in self._published:
            self._gives(who[int(self._random.random() * len(who))], batch)
            return
        for consumer in who:
            first = self._hears(consumer, batch)
            if consumer.mode == CUMULATIVE:
                consumer.acks(self._tick(), [first + count - 1])
            elif consumer.mode == INDIVIDUAL:
                consumer.acks(self._tick(), range(first, first + count))
        self._truth.became(destination, "acked" if who else "undelivered", count)

    def _hears(self, consumer: Client, batch: Batch) -> int:
        """A MESSAGE of each; answers the first delivery."""
        first, count = self._delivery, len(batch.numbers)
        self._delivery += count
        consumer.hears(self._tick(), batch, first)
        self._truth.deliveries[batch.destination] += count
        return first

    def _gives(self, consumer: Client, batch: Batch) -> None:
        """A queue's messages come to a consumer, and are answered as it does that."""
        random, world = self._random, self._world
        destination, count = batch.destination, len(batch.numbers)
        first = self._hears(consumer, batch)
        if consumer.mode != INDIVIDUAL:
            if consumer.mode == CUMULATIVE:
                consumer.acks(self._tick(), [first + count - 1])
            self._truth.became(destination, "acked", count)
            return
        answered = [*range(first, first + count)]
        refused = kept = -1
        if random.random() < world.unanswered * count:
            kept = answered.pop(int(random.random() * len(answered)))
            consumer.owed.append(self._owed(batch, first, kept))
        if answered and random.random() < world.nacked * count:
            refused = answered.pop(int(random.random() * len(answered)))
        self._truth.became(destination, "acked", len(answered))
        if answered or refused >= 0:
            together = random.random() < _TRANSACTIONS
            self._transaction += together
            consumer.acks(
                self._tick(), answered, refuse=refused, transaction=self._transaction if together else -1
            )
        if refused >= 0:
            if random.random() < _REFUSED_AGAIN:
                self._again(consumer, [self._owed(batch, first, refused)])
            else:
                self._truth.became(destination, "nacked", 1)
        if len(consumer.owed) > _PREFETCH:
            late = [consumer.owed.popleft() for _ in range(_PREFETCH // 2)]
            consumer.acks(self._tick(), [each.delivery for each in late])
            for each in late:
                self._truth.became(each.destination, "acked", 1)

    def _owed(self, batch: Batch, first: int, delivery: int) -> Owed:
        at = delivery - first
        return Owed(batch.destination, batch.producer, batch.numbers[at], batch.sizes[at], delivery)

    def _again(self, consumer: Client, again: Sequence[Owed]) -> None:
        """These come once more, and are acknowledged."""
        first = self._delivery
        self._delivery += len(again)
        consumer.hears_again(self._tick(), again, first)
        consumer.acks(self._tick(), range(first, self._delivery))
        found = Counter(each.destination for each in again)
        for destination, count in found.items():
            self._truth.deliveries[destination] += count
            self._truth.became(destination, "acked", count)
            self._truth.redelivered[destination] += count

    # What happens besides

    def _returns(self, consumer: Client) -> None:
        """A consumer is delivered again what it owed."""
        if consumer.owed:
            again = [*consumer.owed]
            consumer.owed.clear()
            self._again(consumer, again)

    def _comes(self) -> None:
        """A client goes, and comes back."""
        clients = self._producers if self._random.random() < 0.3 else self._consumers
        client = clients[int(self._random.random() * len(clients))]
        after = int(SECOND * 0.01)
        client.leave(self._tick(), after)
        self._now += after + SECOND // 4
        client.connect(self._tick())
        self._returns(client)

    def _fails(self, number: int) -> None:
        """A broker is lost by all who have it."""
        random = self._random
        planned = number % 3 == 2
        clients = (*self._producers, *self._consumers)
        broker = random.choice(clients).broker
        others = [each for each in self._brokers if each != broker]
        losers = [each for each in clients if each.broker == broker]
        self._now += _APART
        outage = Outage(broker, planned, len(losers))
        self._truth.outages.append(outage)
        flying = {}
        for each in losers:
            if each in self._asks and random.random() < 0.5:
                flying[each] = self._sends(each, self._queue(), 1 + random.randrange(6))
            each.loses(self._tick(), planned=planned)
            if not planned:
                each.refused(self._tick())
        begun = self._now
        back = sorted((random.lognormvariate(-1.0, 0.8), each.name, each) for each in losers)
        for silence, _, each in back:
            self._now = max(self._now, begun + min(int(silence * SECOND), 5 * SECOND))
            sent = flying.get(each)
            resent = len(each.subscriptions) + (0 if sent is None else len(sent.numbers))
            outage.resent += resent
            each.recovers(self._tick(), random.choice(others), resent)
            if sent is not None:
                self._confirms(each, sent)
            if each.owed:
                if random.random() < 0.3:
                    outage.stale_acks += 1
                    each.acks(self._tick(), [each.owed[0].delivery])
                outage.duplicates += len(each.owed)
                self._returns(each)
        for sent in flying.values():
            self._delivers(sent)
        self._now += _APART
