"""One run: brokers and a relay are started, sessions work, blows fall; at the end all is healed and counted."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from chaos.account import Account, Message
from chaos.faults import Blow
from chaos.sessions import Consumer, Session
from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.fleet import Fleet, failover, fleet, nodes
from tests.e2e.load import drain

KINDS: Final = ("rabbitmq", "activemq", "memory")

PATIENCE: Final = 60.0
"""Seconds in which sessions must end once everything is well, and everything that was confirmed must have come."""

LOGIN: Final = 'login = "guest"\npasscode = "guest"'
"""What the relay's own probes log in with, too."""

IDLE: Final = 3.0
"""Seconds without a message after which consumers have had what their brokers have for them."""


@contextmanager
def arena(kinds: Sequence[str], directory: Path, options: str) -> Iterator[Fleet]:
    """Run a broker of each kind, and a relay that takes sessions from one to the other.

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
                start = brokers.rabbitmq if kind == "rabbitmq" else brokers.activemq
                made.append(stack.enter_context(start(home, authority.issue(f"{kind}-{number}"))))
        members = stack.enter_context(nodes(*made))
        yield stack.enter_context(fleet(directory, members, failover(members, options, more=LOGIN)))


class Run:
    """The time between the first session and the last: `faults` counts what was done to the brokers."""

    def __init__(self, running: Fleet, sessions: Sequence[Session], account: Account) -> None:
        self.faults: Counter[str] = Counter()
        self._running = running
        self._sessions = sessions
        self._account = account
        self._began = time.monotonic()

    async def play(self, blows: Sequence[Sequence[Blow]], seconds: float) -> None:
        """All of it. `blows` are by broker."""
        work = {each: asyncio.create_task(each.run(self._running.port)) for each in self._sessions}
        strikers = [asyncio.create_task(self._strike(each)) for each in blows]
        await asyncio.sleep(seconds)
        # A blow that came late because its broker took long to heal still falls; none comes after it.
        self._over = True
        await asyncio.gather(*strikers)
        await asyncio.to_thread(self._running.heal)
        self._say("all is well; producers end")
        consumers = [each for each in self._sessions if isinstance(each, Consumer)]
        await self._end({each: task for each, task in work.items() if each not in consumers})
        await self._quiet()
        self._say("consumers end")
        await self._end({each: task for each, task in work.items() if each in consumers})
        await self._drain({each.queue for each in self._sessions})

    _over = False

    async def _strike(self, blows: Sequence[Blow]) -> None:
        for blow in blows:
            await asyncio.sleep(blow.after)
            if self._over:
                return
            node = self._running.nodes[blow.broker]
            self._say(f"{node.broker.name} ({blow.broker}): {blow.fault.name}, {blow.lasting:.1f} s")
            self.faults[blow.fault.name] += 1
            await asyncio.to_thread(blow.fault.inject, node)
            await asyncio.sleep(blow.lasting)
            # Not in a thread: a broker that is started dies with the thread that started it.
            blow.fault.begin_healing(node)
            await asyncio.to_thread(node.heal)

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
