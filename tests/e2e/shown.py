"""A program: the admin endpoint of a relay that is made up, with ten thousand sessions and whatever a client or a
broker may call itself. It prints what it is told to do. Its clients send a hundred frames a second, and one broker is
in trouble.

    python -m tests.e2e.shown PORT [TOKEN]
"""

import sys
import time
from types import SimpleNamespace
from typing import Any, Final

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.relay.model.counters import ACK, BOUNDS, CONNECT, RECEIPT, SILENCE, Counters, DestinationTally
from stomprelay.relay.model.group import BrokerTally
from stomprelay.relay.model.move import MoveRow, Phase
from stomprelay.service.admin.condition import Condition
from stomprelay.service.admin.sessions import SessionList, SessionQuery, list_sessions
from stomprelay.service.admin.site import site
from stomprelay.service.admin.snapshot import (
    SERVES,
    BrokerRow,
    DestinationRow,
    JournalRow,
    ListenerRow,
    Snapshot,
    TimeRow,
    WorkerRow,
)
from stomprelay.service.brokers import Brokers, ConfiguredBroker, Outage
from stomprelay.service.connection.relay_driver import SessionInfo
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.process import Reloads
from tests.service.harness import failover, movable

reactor: Any = installed

SESSIONS: Final = 10_000
RATE: Final = 100
"""Frames that come from clients in a second."""
HOSTILE: Final = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
TURNED: Final = "\u202egnp.exe\u2066\u05d0\u05d1 \U000e0041<b>"
LONG: Final = "A" * 10_000
NAMES: Final = {1: HOSTILE, 2: TURNED, 3: LONG}
"""The logins of sessions that mean harm, by number."""


def _driver(number: int, began: float) -> Any:
    """A session, as far as it is listed."""
    destination = f"/queue/{number % 97}" if number not in NAMES else NAMES[number]
    subscribed = SimpleNamespace(destinations=[destination.encode()])
    link = SimpleNamespace(
        upstream=SimpleNamespace(name="main"), session=SimpleNamespace(subscriptions=subscribed)
    )

    def info() -> SessionInfo:
        age = time.time() - began + SESSIONS - number
        return SessionInfo(
            f"relay-0a1b2c3d-{number}", "public", NAMES.get(number, f"app-{number % 10}"),
            f"192.0.2.{number % 200}:{40000 + number}", "1.2", ("tcp://192.0.2.1:61613",), ("1.1",),
            round(age, 3), 0.5, (destination,), 0, number % 7, number % 3,
            number, 2 * number, int(age * number), int(age * 100), int(age * 100), int(age * number), (destination,),
        )  # fmt: skip

    return SimpleNamespace(
        over=False, name=f"relay-0a1b2c3d-{number}", info=info, relay=SimpleNamespace(links=[link])
    )


class Made:
    """The relay that is made up."""

    def __init__(self) -> None:
        brokers = Brokers([movable(failover(1, 2, 3))])
        runtime = Runtime(reactor, time.monotonic)
        sessions = SimpleNamespace(listeners=("public", "internal"))
        self.state: Any = SimpleNamespace(brokers=brokers, runtime=runtime, sessions=sessions)
        self.reloads: Reloads | None = None
        self._began = time.time()
        self._draining = False
        self._sessions = [_driver(number, self._began) for number in range(1, SESSIONS + 1)]
        stays = [["relay-0a1b2c3d-3", HOSTILE], ["relay-0a1b2c3d-7", "it was lost"]]
        self._moves = {
            row.name: row
            for row in (
                MoveRow("all", "glob *", "artemis", "off", 0.0, 0, 0, 0, 0, 0, 0, "", [], [], "main"),
                MoveRow(
                    "orders", "prefix /queue/orders", "artemis", "both", self._began - 700,
                    SESSIONS, SESSIONS - 107, 2, 5, 0, 0, "", stays, [], "main",
                ),
                MoveRow(
                    "prices", f"exact /topic/{LONG[:200]}", "artemis", "shadow", self._began - 90_000,
                    SESSIONS, SESSIONS, 0, 0, 1_234_567, 3, f"it answered ERROR: {TURNED}", [], [], "main",
                ),
            )
        }  # fmt: skip
        one, two, three = (each.broker.health for each in brokers)
        one.up, two.up, three.up = True, False, None

    def condition(self) -> Condition:
        """Return how it is."""
        return Condition(len(self._sessions), draining=self._draining, workers=2, serving=1)

    def snapshot(self, *, whole: bool) -> Snapshot:
        """Return what it is now."""
        now = time.time()
        passed = int((now - self._began) * RATE)
        counters = Counters()
        counters.update(
            client_frames=passed, broker_frames=2 * passed, client_bytes=100 * passed, failovers=7
        )
        counters.update(broker_bytes=300 * passed, sessions_opened=SESSIONS, errors_sent=2)
        tally = BrokerTally(passed, 100 * passed, 2 * passed, 300 * passed, 7)
        sends = DestinationTally(passed, 100 * passed, passed, 200 * passed)
        counts = tuple(passed if at == BOUNDS.index(0.005) else 3 for at in range(len(BOUNDS) + 1))
        return Snapshot(
            False,
            len(self._sessions) + 3,
            (
                ListenerRow("public", "tcp:61613", "tcp://192.0.2.1:61613", len(self._sessions), counters),
                ListenerRow("internal", "unix:/run/stomp", "tcp://192.0.2.1:61613", 0, Counters()),
            ),
            tuple(self._broker(each, tally) for each in self.state.brokers),
            JournalRow("/var/lib/stomprelay", "is written", False, False, 4096, _journal(passed)),
            (
                WorkerRow(1, 4711, SERVES, len(self._sessions), 0, now),
                WorkerRow(2, 4712, SERVES, 0, 1, now - 60),
            ),
            tuple(TimeRow(each, label, counts, passed * 0.004) for each, label in _TIMES),
            (
                DestinationRow("/queue/orders", sends),
                DestinationRow(HOSTILE, DestinationTally(3, 30)),
                DestinationRow(TURNED, DestinationTally(2, 20)),
                DestinationRow(None, DestinationTally(1, 10)),
            ),
            started=self._began,
            time=now,
            outages=(
                Outage(
                    "main", "tcp://192.0.2.1:61613", now - 3600, now - 3590, False, 40, 38, 2, 0, "it went"
                ),
                Outage("main", "tcp://192.0.2.2:61613", self._began, None, True, 4000, 4000, 0, 12, HOSTILE),
            ),
            draining=self._draining,
            moves=self.moves(),
        )

    def _broker(self, each: ConfiguredBroker, tally: BrokerTally) -> BrokerRow:
        health = each.broker.health
        own = tally if health.up else BrokerTally()
        sessions = len(self._sessions) if health.up else 0
        why = HOSTILE if health.up is False else ""
        state = each.state(0.0)
        return BrokerRow(
            each.broker.uri, "main", each.group.name, state, health.up, health.paused, sessions, 0, 12 * bool(why),
            why=why, tally=own,
        )  # fmt: skip

    def obstacles(self) -> list[str]:
        """Return why it is not to be sent clients."""
        return []

    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None) -> None:
        """Take these brokers out of service."""
        for each in found:
            each.broker.health.paused = True
            print("paused", each.broker, within, flush=True)

    def resume(self, found: tuple[ConfiguredBroker, ...]) -> None:
        """Take these brokers into service again."""
        for each in found:
            each.broker.health.paused = False
            print("resumed", each.broker, flush=True)

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that are asked for."""
        state: Any = SimpleNamespace(sessions=self._sessions, runtime=SimpleNamespace(reactor=reactor))
        return Deferred.fromCoroutine(list_sessions(state, query))

    def drain(self, draining: bool) -> None:
        """Refuse new clients, or let them in again."""
        self._draining = draining
        print("draining", draining, flush=True)

    def moves(self) -> tuple[MoveRow, ...]:
        """Return the moves."""
        return tuple(self._moves.values())

    def move(self, name: str, phase: Phase) -> None:
        """Begin a phase of a move."""
        self._moves[name] = self._moves[name]._replace(phase=phase.value, since=time.time(), stopped="")
        print("moved", name, phase.value, flush=True)

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        """Return what passed: the page does not ask."""
        raise NotImplementedError

    def kill(self, name: str) -> bool:
        """End the session of this name, and return whether there is one."""
        left = [each for each in self._sessions if each.name != name]
        found = len(left) < len(self._sessions)
        self._sessions = left
        print("ended", name, found, flush=True)
        return found


_TIMES: Final = ((CONNECT, "public"), (RECEIPT, "main"), (ACK, "public"), (SILENCE, "main"))


def _journal(passed: int) -> dict[str, int]:
    written = {"blocks": passed // 10, "frames": 3 * passed, "bytes": 400 * passed}
    return {**written, "dropped_blocks": 0, "dropped_frames": 0, "dropped_bytes": 0, "write_errors": 0}


def main() -> None:
    """Serve until it is ended."""
    port, *token = sys.argv[1:]
    secret = token[0].encode() if token else None
    reactor.listenTCP(int(port), site(Made(), reactor, (), secret), interface="127.0.0.1")
    print("serves", flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
