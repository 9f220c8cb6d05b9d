"""One run: brokers and a relay are started, clients act, blows fall; then all is healed, and the history is read."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Final

from chaos.faults import Blow
from chaos.poison import Poison
from chaos.real import Clock, Network
from chaos.verdict import Verdict
from sim.brokers import PRODUCTS
from sim.case import arranged
from sim.clients import Client, Habit, place_name
from sim.history import History, What
from sim.judge import judge
from sim.plan import CALM, PLAIN, VERSIONS, Scene, client_act
from sim.stomp import Frame
from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.fleet import KILL, Fleet, Node, failover, nodes
from tests.e2e.load import drain
from tests.e2e.ports import free_port
from tests.e2e.raw import Closed
from tests.e2e.relay import served

KINDS: Final = (*brokers.INSTALLED, "memory")

PATIENCE: Final = 60.0
"""Seconds in which clients must be answered and gone, once everything is well."""

PACE: Final = 0.15
"""Seconds between two acts of a client, on average."""

FEW: Final = 10
"""How many findings of one rule are told one by one."""

LOSS: Final = ("a_receipt_is_true", "nothing_is_lost_quietly")
"""The rules that find what is lost."""

QUEUES: Final = (1, 2, 3)
"""The numbers of queues. Each is read in one mode of acknowledgement, the first with `auto`."""

TOPIC: Final = 4
"""The number of the topic, in which nothing is kept."""

DEAD: Final = ("/queue/ActiveMQ.DLQ", "/queue/DLQ")
"""Where brokers put what was refused or delivered too often."""


@contextmanager
def arena(kinds: Sequence[str], directory: Path, options: str) -> Iterator[tuple[Fleet, int]]:
    """Run a broker of each kind, and a relay that takes sessions from one to the other. Its listeners speak WebSocket,
    too; the second one is behind TLS, at the port that is returned.

    Raises `brokers.Absent` when a broker is not installed.
    """
    (directory / "authority").mkdir()
    authority = Authority(directory / "authority", "authority")
    with ExitStack() as stack:
        made = []
        for number, kind in enumerate(kinds):
            home = directory / f"{kind}-{number}"
            if kind == "memory":
                home.mkdir()
                made.append(stack.enter_context(brokers.memory(home)))
            else:
                credentials = authority.issue(f"{kind}-{number}")
                made.append(stack.enter_context(brokers.INSTALLED[kind](home, credentials)))
        members = stack.enter_context(nodes(*made))
        secure, own = free_port(), authority.issue("relay")
        listener = f"""
web = true
heart_beat = [1000, 1000]
heart_beat_tolerance = 5  # on a busy machine both may be late
[listener.secure]
endpoint = "tcp:{secure}:interface=127.0.0.1"
upstream = "main"
web = true
heart_beat = [1000, 1000]
heart_beat_tolerance = 5  # on a busy machine both may be late
tls = {{ certificate = "{own.certificate}", key = "{own.key}" }}
"""
        running = stack.enter_context(served(directory, failover(members, options), listener, ports=[secure]))
        yield Fleet(running, running.port, running.admin, members), secure


class Short(History):
    """A history of frames whose bodies are without the dots that make them long."""

    def add(
        self, at: float, who: str, what: What, session: int = 0, frame: Frame | None = None, detail: str = ""
    ) -> None:
        """Add an event, which is the last one so far."""
        short = frame and frame._replace(body=frame.body.rstrip(b"."))
        super().add(at, who, what, session, short, detail)


def habits(seed: int, count: int) -> dict[str, Habit]:
    """Return the habits of so many clients, by their names."""
    chance = Random(seed)
    random, choice = chance.random, chance.choice
    return {
        f"c{number}": Habit(
            VERSIONS[number % 3],
            random() < 0.2,
            choice((0.1, 1.0)),
            choice((0, 1000)),
            web=random() < 0.25,
            secure=random() < 0.2,
            beats=random() < 0.5,
            login=b"guest",
        )
        for number in range(1, count + 1)
    }


class Run:
    """The time between the first session and the last. The clients of `poison` come and go all the time."""

    def __init__(
        self,
        running: Fleet,
        secure: int,
        kinds: Sequence[str],
        habits: dict[str, Habit],
        seed: int,
        poison: Poison,
    ) -> None:
        self.faults: Counter[str] = Counter()
        self.figures: list[tuple[str, str]] = []
        self._names = [f"{kind}-{number}" for number, kind in enumerate(kinds)]
        # No client reads two queues, so that no ACK covers what it does not mean.
        models = {each.name: each._replace(across=False) for each in PRODUCTS}
        members = {
            name: (models.get(kind.removesuffix("_6"), PRODUCTS[-1]), b"1.2")
            for name, kind in zip(self._names, kinds, strict=True)
        }
        scene = Scene("failover", members, habits, CALM, PLAIN | {"confirm": True, "beats": True})
        self.history = Short(scene=scene, brokers_seen=False)
        self._poison = poison
        self._running = running
        self._secure = secure
        self._seed = seed
        self._over = False

    async def play(self, blows: Sequence[Iterable[Blow]], seconds: float, most: float = inf) -> None:
        """All of it. `blows` are by broker; they fall for so many seconds, or until there were so many of them."""
        self._clock = Clock(asyncio.get_running_loop())
        self._clock.loop.set_exception_handler(self._failed)
        self._note("relay", What.FATE, "starts")
        self._clients = []
        for name, habit in self.history.facts["scene"].clients.items():
            port = self._secure if habit.secure else self._running.port
            client = Client(name, habit, ("127.0.0.1", port), Network(self._clock), self.history)
            self._clients.append(client)
            self._clock.after(0.0, self._live, client, Random(f"{self._seed}/{name}"))
        poison = asyncio.create_task(self._poison.run(self._running.port))
        memory = self._running.relay.memory()
        strikers = [asyncio.create_task(self._strike(*each, most)) for each in enumerate(blows)]
        if seconds < inf:
            await asyncio.sleep(seconds)
            # A blow that came late because its broker took long to heal still falls; none comes after it.
            self._over = True
        await asyncio.gather(*strikers)
        for name, node in zip(self._names, self._running.nodes, strict=True):
            await self._heal(name, node)
        self._poison.stop()
        await poison
        self._over = True
        self._note("relay", What.CALM, "all is well")
        await self._settle()
        await self._leave(memory)
        await self._drain()

    def _live(self, client: Client, chance: Random) -> None:
        """Let a client act, and again after a while. It reads one queue, and the topic."""
        if self._over:
            return
        act, values = client_act(chance)
        if client.line is None or client.line.over:
            act, values = "connect", ()
        mode = int(client.name[1:]) // 3 % 3
        if act in ("send", "burst"):  # with no odd header: brokers have their own ways with them
            values = (values[0] % 5, *values[1:])
        elif act == "subscribe":
            topic = values[0] % 4 == 0
            values = (TOPIC, 0, values[2]) if topic else (QUEUES[mode], mode, values[2])
        # What an UNSUBSCRIBE crosses RabbitMQ holds until the connection ends: an ACK that covers others covers it.
        odd = (
            act == "poison",
            act == "nack" and client.habit.version == b"1.0",
            act == "unsubscribe" and mode == 1,
        )
        if not any(odd):
            for _ in range(1 + values[0] % 8 if act == "ack" else 1):
                client.act(act, *values)
        self._clock.after(chance.expovariate(1 / PACE), self._live, client, chance)

    async def _strike(self, number: int, blows: Iterable[Blow], most: float) -> None:
        node, name = self._running.nodes[number], self._names[number]
        for blow in blows:
            await asyncio.sleep(blow.after)
            if self._over or self.faults.total() >= most:
                return
            self.faults[blow.fault.name] += 1
            self._note(name, What.FATE, f"{blow.fault.name}, {blow.lasting:.1f} s")
            with suppress(AssertionError):  # Artemis may take minutes to stop, and is killed then
                await asyncio.to_thread(blow.fault.inject, node)
            await asyncio.sleep(blow.lasting)
            # Not in a thread: a broker that is started dies with the thread that started it.
            blow.fault.begin_healing(node)
            await self._heal(name, node)
            self._note(name, What.FATE, "is well")

    async def _heal(self, name: str, node: Node) -> None:
        """Make a broker well. One that does not answer starts again: Artemis 2.44 waits for itself for ever when a
        connection breaks while its DISCONNECT is answered.
        """
        try:
            await asyncio.to_thread(node.heal)
        except AssertionError:
            self._note(name, What.FATE, "does not answer")
            await self._restart(node)

    async def _restart(self, node: Node) -> None:
        await asyncio.to_thread(KILL.inject, node)
        KILL.begin_healing(node)
        await asyncio.to_thread(node.heal)

    async def _settle(self) -> None:
        """Each client settles what it has, and is answered."""
        for client in self._clients:
            self._clock.do(client.settle)
        await self._until(lambda: not any(each.open and each.awaited for each in self._clients))
        for client in self._clients:
            for _ in range(len(client.owed)):
                self._clock.do(client.act, "ack", 0, 0)
            self._clock.do(client.complain)

    async def _leave(self, memory: int) -> None:
        """All clients go, each in its way; then the relay has no session and no connection but its probes'."""
        for number, client in enumerate(self._clients):
            self._clock.do(client.act, ("disconnect", "vanish", "reset", "half_close")[number % 4])
        admin = self._running.admin

        def left() -> str:
            served = sum(int(each["sessions"]) for each in admin.brokers().values())
            return f"{int(admin.metrics()['sessions'])}, {served} at brokers"

        if not await self._until(lambda: left() == "0, 0 at brokers"):
            self._note("relay", What.WRONG, f"sessions are left: {left()}")
        self.history.facts["counters"] = {"possibly_lost": admin.counted("possibly_lost")}
        self.figures += [
            ("sessions at the end", left()),
            ("broker connections at the end", f"{sum(n.proxy.connections for n in self._running.nodes):,}"),
            ("possibly lost", f"{admin.counted('possibly_lost'):,}"),
            (
                "the relay's memory",
                f"{self._running.relay.memory() >> 20:,} MiB, {memory >> 20:,} at the start",
            ),
        ]

    async def _until(self, reached: Any) -> bool:
        """Wait until this is true, for as long as patience lasts. Return whether it became true."""
        deadline = time.monotonic() + PATIENCE
        while not (found := bool(reached())) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return found

    async def _drain(self) -> None:
        """Take what the brokers have, again and again while something is missing: it may come late, or be given to a
        connection of which the broker does not know yet that it has ended. A broker that does not answer starts again.
        """
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            stuck = ""
            for name, node in zip(self._names, self._running.nodes, strict=True):
                for queue in (*[place_name(each).decode() for each in QUEUES], *DEAD):
                    again: set[bytes] = set()
                    try:
                        bodies = await asyncio.to_thread(drain, node.broker.port, queue, 0, again)
                    except (OSError, Closed) as error:
                        stuck = f"{queue} of {name} cannot be drained: {error!r}"
                        if not name.startswith("memory"):  # it keeps what it has, on disk
                            await self._restart(node)
                        continue
                    for body in bodies:
                        given = {b"redelivered": b"true"} if body in again else {}
                        self.history.add(
                            self._clock.now, name, What.KEPT, frame=Frame(b"MESSAGE", given, body)
                        )
            missing = any(each.rule in LOSS for each in judge(self.history))
            if time.monotonic() > deadline:
                if stuck:
                    self._note("relay", What.WRONG, stuck)
                return
            if not missing and not stuck:
                return
            await asyncio.sleep(1)

    def _note(self, who: str, what: What, detail: str) -> None:
        """Add an event to the history, and print it."""
        self._clock.do(lambda: self.history.add(self._clock.now, who, what, detail=detail))
        print(f"{self._clock.now:6.1f} s  {who}: {detail}", flush=True)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._note(
            "relay", What.WRONG, f"the run itself failed: {context['message']} {context.get('exception')!r}"
        )

    def verdict(self, title: str) -> Verdict:
        """Return the figures, and what the judge finds."""
        case, findings = arranged(self.history), judge(self.history)
        found = Counter(each.rule for each in findings)
        sends = case.sends
        confirmed = sum(each.confirmed is not None for each in sends)
        rows = [
            ("sessions", f"{len(case.stays):,}"),
            ("SENDs", f"{len(sends):,}"),
            ("  confirmed", f"{confirmed:,}"),
            ("  lost", f"{found['a_receipt_is_true']:,}"),
            ("receipts twice", f"{found['a_receipt_comes_once']:,}"),
            ("disturbed", f"{found['nobody_is_disturbed']:,}"),
            ("faults", f"{self.faults.total():,}"),
            *((f"  {name}", f"{count:,}") for name, count in sorted(self.faults.items())),
            ("poison clients", f"{self._poison.came.total():,}"),
            *self.figures,
        ]
        few: dict[str, list[str]] = {}
        for each in findings:
            few.setdefault(each.rule, []).append(str(each))
        told = [each for lines in few.values() for each in lines[:FEW]]
        told += [f"{rule}: {count:,} in all" for rule, count in found.items() if count > FEW]
        told += [] if confirmed else ["nothing was confirmed"]
        return Verdict(title, rows, told)
