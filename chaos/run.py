"""One run: brokers and a relay are started, sessions work, blows fall; at the end all is healed and counted."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Final

from chaos.account import Account, Message
from chaos.faults import Blow
from chaos.outages import Outages
from chaos.poison import Poison
from chaos.sessions import Consumer, Session
from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.fleet import Fleet, failover, fleet, nodes
from tests.e2e.load import drain

KINDS: Final = (*brokers.INSTALLED, "memory")

PATIENCE: Final = 60.0
"""Seconds in which sessions must end once everything is well, and everything that was confirmed must have come."""

LOGIN: Final = 'login = "guest"\npasscode = "guest"'
"""What the relay's own probes log in with, too."""

IDLE: Final = 3.0
"""Seconds without a message after which consumers have had what their brokers have for them."""


ENOUGH: Final = 5.0
"""Seconds at a stretch for which a broker is well, in which every receipt that is waited for must have come."""


@contextmanager
def arena(kinds: Sequence[str], directory: Path, options: str, login: str = LOGIN) -> Iterator[Fleet]:
    """Run a broker of each kind, and a relay that takes sessions from one to the other. `login` are lines of its
    upstream: without them each client's own login counts.

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
        yield stack.enter_context(fleet(directory, members, failover(members, options, more=login)))


class Run:
    """The time between the first session and the last: `faults` counts what was done to the brokers, `figures` are
    what the relay had at the end. Where there is `poison` its clients come and go all the time.
    """

    def __init__(
        self, running: Fleet, sessions: Sequence[Session], account: Account, poison: Poison | None = None
    ) -> None:
        self.faults: Counter[str] = Counter()
        self.figures: list[tuple[str, str]] = []
        self._poison = poison
        self._outages = Outages(len(running.nodes))
        self._most: float = inf
        self._running = running
        self._sessions = sessions
        self._account = account
        self._began = time.monotonic()

    async def play(self, blows: Sequence[Iterable[Blow]], seconds: float, most: float = inf) -> None:
        """All of it. `blows` are by broker; they fall for so many seconds, or until there were so many of them."""
        self._most = most
        work = {each: asyncio.create_task(each.run(self._running.port)) for each in self._sessions}
        poison = None
        if self._poison is not None:
            poison = asyncio.create_task(self._poison.run(self._running.port))
        memory = self._running.relay.memory()
        strikers = [asyncio.create_task(self._strike(each)) for each in blows]
        if seconds < inf:
            await asyncio.sleep(seconds)
            # A blow that came late because its broker took long to heal still falls; none comes after it.
            self._over = True
        await asyncio.gather(*strikers)
        await asyncio.to_thread(self._running.heal)
        if self._poison is not None and poison is not None:
            self._poison.stop()
            await poison
        self._say("all is well; producers end")
        consumers = [each for each in self._sessions if isinstance(each, Consumer)]
        await self._end({each: task for each, task in work.items() if each not in consumers})
        await self._quiet()
        self._say("consumers end")
        await self._end({each: task for each, task in work.items() if each in consumers})
        await self._drain({each.queue for each in self._sessions})
        self._account.withheld = self._outages.unexplained(self._account.waits, ENOUGH)
        await self._leave(memory)

    _over = False

    async def _strike(self, blows: Iterable[Blow]) -> None:
        for blow in blows:
            await asyncio.sleep(blow.after)
            if self._over or self.faults.total() >= self._most:
                return
            node = self._running.nodes[blow.broker]
            self._say(f"{node.broker.name} ({blow.broker}): {blow.fault.name}, {blow.lasting:.1f} s")
            self.faults[blow.fault.name] += 1
            self._outages.began(blow.broker, time.monotonic())
            await asyncio.to_thread(blow.fault.inject, node)
            await asyncio.sleep(blow.lasting)
            # Not in a thread: a broker that is started dies with the thread that started it.
            blow.fault.begin_healing(node)
            await asyncio.to_thread(node.heal)
            self._outages.ended(blow.broker, time.monotonic())

    async def _leave(self, memory: int) -> None:
        """Wait until the relay has no session and no connection but its probes', and see what it has."""
        deadline = time.monotonic() + PATIENCE
        while (left := await asyncio.to_thread(self._sessions_left)) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        brokers = await asyncio.to_thread(self._running.admin.brokers)
        served = sum(int(each["sessions"]) for each in brokers.values())
        if left or served:
            self._account.left.append(f"{left} sessions, {served} of them at brokers")
        self.figures += [
            ("sessions at the end", f"{left:,}"),
            ("  at brokers", f"{served:,}"),
            ("broker connections at the end", f"{sum(n.proxy.connections for n in self._running.nodes):,}"),
            ("the relay's memory", f"{self._running.relay.memory() / 2**20:,.0f} MiB"),
            ("  at the start", f"{memory / 2**20:,.0f} MiB"),
        ]
        if self._poison is not None:
            self.figures.append(("poison clients", f"{self._poison.came.total():,}"))
            self.figures += [(f"  {kind}", f"{count:,}") for kind, count in sorted(self._poison.came.items())]

    def _sessions_left(self) -> int:
        """Ask the relay how many sessions it has."""
        return int(self._running.admin.metrics()["sessions"])

    async def _end(self, work: dict[Session, asyncio.Task[None]]) -> None:
        for session in work:
            session.stop()
        await asyncio.wait(work.values(), timeout=PATIENCE)
        for session, task in work.items():
            if not task.done():
                self._account.stuck.append(session.name)
                task.cancel()
        await asyncio.gather(*work.values(), return_exceptions=True)

    async def _quiet(self) -> None:
        """Wait until consumers have everything, or get nothing more: the rest is on a broker where nobody reads."""
        seen, since = -1, time.monotonic()
        while self._account.missing() and time.monotonic() - since < IDLE:
            await asyncio.sleep(0.1)
            if (count := sum(self._account.received.values())) != seen:
                seen, since = count, time.monotonic()

    async def _drain(self, queues: set[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        first = True
        while first or (self._account.lost and time.monotonic() < deadline):
            first = False
            for queue in sorted(queues):
                found = [
                    await asyncio.to_thread(drain, node.broker.port, queue) for node in self._running.nodes
                ]
                self._account.drained([[Message.of(body) for body in each] for each in found])

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)
