"""A world: it plays a plan, with a real relay service on the world's clock and network, and returns the history."""

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, partialmethod
from itertools import chain
from math import inf
from random import Random
from typing import Any, Final
from unittest.mock import patch

from twisted.logger import LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure

from sim.brokers import Broker
from sim.clients import Client
from sim.disk import OS, Disk, on_disks
from sim.history import History, What
from sim.net import BEGIN, SELECT, SOCKETS, Clock, Network, Reactor, Spinning, Weather
from sim.pipe import Pipe
from sim.plan import CHANGES, MOVED, PLACE, Plan, Step
from sim.rough import RoughBroker, RoughClient
from stomprelay.config import Config
from stomprelay.journal.settings import JournalSettings
from stomprelay.relay.inputs import Identified, Input, Unknown
from stomprelay.relay.model.move import Move, Phase
from stomprelay.relay.model.rules import Claim, Ground, Identity, Refusal
from stomprelay.service import relay
from stomprelay.service.clients import clients
from stomprelay.service.clients.identification import Identification
from stomprelay.service.connection import protocol, relay_driver, runtime, web
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.network import sockets
from stomprelay.service.network.endpoints import BrokerEndpoint
from stomprelay.service.relay import RelayService
from stomprelay.session.effects import Effect
from stomprelay.session.leg import Leg

SLACK: Final = 2 * 64 * 1024
"""Bytes that may be kept beyond a bound: those of a read, and of one more before reading stops."""
STEP: Final = 5.0
"""Seconds after which it is looked whether what is waited for is over."""
LENGTH: Final = 12.0
"""Seconds of the plan's weather, at most."""
SETTLING: Final = 30.0
"""Seconds after the weather in which every session has to come to rest."""
LEAVING: Final = 30.0
"""Seconds after which nothing may be left of sessions whose clients have gone."""


@contextmanager
def simulated() -> Iterator[None]:
    """Let relays of this process use the network of the world that is played. Worlds are played inside."""
    gc.freeze()  # what is there before the first world is not looked at again
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 5, 10)
    with (
        on_disks(),
        patch.object(sockets, "socket", SOCKETS),
        patch.object(runtime, "select", SELECT),
        patch.object(protocol, "select", SELECT),
        patch.object(protocol, "send", protocol.send_in_python),
        patch.object(protocol.COMPILED or protocol, "send", protocol.send_in_python),
        patch.object(protocol, "READ", 16 * 1024),
        patch.object(relay, "return_freed_memory", lambda: None),
        patch.object(web, "send", protocol.send_in_python),
        patch.object(Identification, "ask", _identify),
        patch.object(RelayDriver, "connect", _connect),
        patch.object(Driver, "perform", partialmethod(_perform, Driver.perform)),
        patch.object(relay_driver, "PIPE", Pipe),
        patch.object(clients, "PIPE", Pipe),
    ):
        yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def _client(driver: RelayDriver) -> tuple[str, int] | None:
    """Return which connection of a client a session is for, if that is known."""
    net, client = SOCKETS.net, driver.address
    found = net.clients.get((getattr(client, "host", ""), getattr(client, "port", 0)))
    key: tuple[str, int] | None = net.clients.setdefault(driver.name, found)  # its client may go before it
    return key


def _connect(driver: RelayDriver, leg: Leg, endpoint: BrokerEndpoint) -> None:
    """Stand for `RelayDriver.connect`: let the network know for which client the relay connects."""
    SOCKETS.net.asking = _client(driver)
    Driver.connect(driver, leg, endpoint)
    SOCKETS.net.asking = None


def _perform(driver: Driver, perform: Callable[..., None], effects: Sequence[Effect]) -> None:
    """Stand for `Driver.perform`: let the network know when the relay begins to end a session, and has."""
    if isinstance(driver, RelayDriver) and (driver.relay.ending or driver.relay.client.closed):
        net, key = SOCKETS.net, _client(driver)
        net.ending.setdefault(key, net.clock.now)
        if driver.relay.client.closed:
            net.over.add(key)
    perform(driver, effects)


def _identify(service: Identification, driver: RelayDriver, claim: Claim) -> None:
    """Stand for `Identification.ask`: find out the user after some time. Some rough clients are not let in."""
    odd, clock = claim.login is not None, SOCKETS.net.clock
    answer: Input = Identified(Identity("alice", until=clock.now + 3.0 if odd else inf))
    if odd and random.random() < 0.3:
        answer = Unknown(Refusal(Ground.PASSCODE, "another passcode"))
    # Who answers is another process, which does not end with the relay.
    clock.after(random.random() * 0.3, lambda: driver.handle(answer) if service._reactor.alive else None)


class RelayProcess:
    """The relay as a process, the `number`th of its world. `again`: it is to start again when it has stopped."""

    def __init__(self, name: str, number: int, config: Config, reactor: Reactor) -> None:
        self.number = number
        self.reactor = reactor
        self.again = False
        clock = reactor.clock
        self.service = RelayService(
            config, reactor, reactor.seconds, lambda: int((1_790_000_000 + clock.now) * 1e9)
        )
        self.service.clients.prefix = f"{name}-{number}"
        self.state = self.service.state
        self.service.privilegedStartService()
        self.service.startService()

    @property
    def works(self) -> bool:
        """Whether it runs and is not about to stop."""
        return self.reactor.alive and not self.state.sessions.stopping

    def excess(self) -> Iterator[str]:
        """Yield in words what is kept beyond the bounds: of a session a buffer for its client and each group, and one
        read more in each; of all sessions the memory that is allowed.
        """
        for driver in self.state.sessions:
            upstream = driver.relay.listener.upstream
            bound = (1 + len(upstream.groups)) * (upstream.resend_buffer + SLACK)
            if driver.relay.kept > bound:
                yield f"{driver.relay.kept} bytes are kept of {driver.name}, {bound} may be"
        row = self.state.runtime.memory.row
        if row.limit is not None and row.kept > row.limit + SLACK * len(self.state.sessions):
            yield f"{row.kept} bytes are kept of all sessions, {row.limit} may be"

    def sessions(self) -> dict[str, int]:
        """Return how much there is of sessions, by name."""
        runtime = self.state.runtime
        timers = [(at, each) for at, found in runtime.timers._waiting.values() for each in found]
        health = [each.broker.health for each in self.state.brokers]
        return {
            "sessions": len(self.state.sessions),
            "legs": len(runtime.protocols),
            "connections": runtime.sockets,
            "kept bytes": runtime.memory.row.kept,
            "timers": sum(each.armed == at and isinstance(each, Driver | LegProtocol) for at, each in timers),
            "sessions of brokers": sum(each.sessions + each.coming for each in health),
        }

    def left(self) -> Iterator[str]:
        """Yield what is left of it, in words. Call this when it has stopped."""
        for error in self.reactor.faults:
            yield f"an exception reached the reactor: {error!r}"
        if self.state.runtime.sockets:
            return  # their peers took too long: this is logged
        memory = self.state.runtime.memory  # it may look once more, until its process ends
        for call in [each for each in self.reactor.getDelayedCalls() if each is not memory._next]:
            yield f"a call is left of a relay that has stopped: {call}"
        if self.reactor.open_ends():
            yield "sockets are left of a relay that has stopped"


class World:
    """Plays a plan. `tell`: also note each line of the relay's log. `relays`: what sessions' names begin with."""

    def __init__(self, plan: Plan, tell: bool = False, relays: str = "relay") -> None:
        self.plan = plan
        self.name = relays
        self.tell = tell
        self.clock = Clock()
        scene, settings = plan.scene, plan.scene.settings
        rough = [name for name, habit in scene.clients.items() if habit.rough]
        self.history = History(MOVED if settings.get("mapped") else (), scene=scene, rough=rough)
        self.net = Network(self.clock, Random(plan.seed + "/net"), Weather(*scene.weather))
        self.net.size = settings["size"]
        self.net.ending = self.history.ending
        self.disk = Disk(self.clock) if settings["journal"] else None
        self.brokers: dict[str, Broker] = {}
        kind: Any = partial(RoughBroker, scene.mood) if scene.mood else Broker
        for name, (product, version) in scene.brokers.items():
            made = kind(name, product, version, self.net, self.history, Random(plan.seed + name))
            made.web, made.secure = settings["broker_web"], settings["broker_tls"]
            self.brokers[name] = made
        self.changed = CHANGES[-1]
        self.move = Move("c")
        self.relays: list[RelayProcess] = []
        self.clients: dict[str, Client] = {
            name: (RoughClient if habit.rough else Client)(name, habit, PLACE, self.net, self.history)
            for name, habit in scene.clients.items()
        }
        self._steps = 0

    def wrong(self, text: str) -> None:
        """Add to the history that something is wrong."""
        self.history.add(self.clock.now, "relay", What.WRONG, detail=text)

    def _log(self, event: dict[str, Any]) -> None:
        if event.get("log_level") is LogLevel.critical:
            failure = event.get("log_failure")
            self.wrong(f"{formatEvent(event)} {failure.getTraceback() if failure else ''}")
        elif self.tell:
            self.history.add(self.clock.now, "relay", What.LOGGED, detail=formatEvent(event))

    def play(self) -> History:
        """Play the plan to its end, and return the history."""
        SOCKETS.net, OS.disk = self.net, self.disk
        random.seed(self.plan.seed)
        log: Any = self._log
        globalLogPublisher.addObserver(log)
        try:
            self._play()
        except Spinning as error:
            self.wrong(str(error))
        finally:
            globalLogPublisher.removeObserver(log)
            SOCKETS.net = OS.disk = None  # they would keep all of this world
        return self.history

    def _play(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self._relay_start()
        for step in self.plan.steps:
            if step.at < LENGTH:  # `_calm` ends what would end later
                self.clock.at(BEGIN + step.at, self._step, step)
        self.clock.run(BEGIN + LENGTH)
        self._calm()
        self._wait(SETTLING, self._quiet)
        self._settle()
        self._leave()
        self._look()

    # Steps

    def _step(self, step: Step) -> None:
        self._steps += 1
        if self.relay.reactor.alive and self._steps % 4 == 0:
            for text in self.relay.excess():
                self.wrong(text)
        if step.who in self.clients:
            self.clients[step.who].act(step.act, *step.values)
        elif step.who in self.brokers:
            getattr(self.brokers[step.who], step.act)(*step.values)
        elif step.act in ("start", "kill", "lack", "disk", "cut") or self.relay.works:
            getattr(self, f"_relay_{step.act}")(*step.values)

    @property
    def relay(self) -> RelayProcess:
        """The relay that runs, or that ran last."""
        return self.relays[-1]

    def _fate(self, what: str) -> None:
        self.history.add(self.clock.now, "relay", What.FATE, detail=what)

    def _relay_start(self, beside: bool = False) -> None:
        """Start the relay; when it has stopped, if it is about to. `beside`: beside the process that runs."""
        if self.relays and self.relay.reactor.alive and not beside:
            self.relay.again = not self.relay.works
            return
        self.net.lacking = False
        self._fate("starts")
        reactor = Reactor(self.clock, self.net)
        if self.disk is not None:
            self.disk.reactor = reactor
        self.relays.append(RelayProcess(self.name, len(self.relays) + 1, self._config(), reactor))

    def _relay_kill(self) -> None:
        """The relay dies at once."""
        if self.relay.reactor.alive:
            self._fate("is killed")
            self.relay.reactor.kill()

    def _relay_stop(self) -> None:
        """Stop the relay in order. It ends when it is done."""
        self._fate("stops")
        self._end(self.relay, "has stopped")

    def _relay_handover(self) -> None:
        """A new process takes the place where the relay listens, and the old one stops."""
        old = self.relay
        self._fate("hands over")
        self._relay_start(beside=True)
        self._end(old, "has handed over")

    def _end(self, relay: RelayProcess, what: str) -> None:
        stopped = partial(self.clock.soon, self._stopped, relay, what)
        _ = relay.service.stopService().addCallbacks(stopped, stopped)

    def _stopped(self, relay: RelayProcess, what: str, trouble: Failure | None) -> None:
        if not relay.reactor.alive:
            return
        if trouble is not None:
            self.wrong(f"the relay cannot stop: {trouble.getTraceback()}")
        for text in relay.left():
            self.wrong(text)
        self._fate(what)
        relay.reactor.kill()
        if relay.again:
            self._relay_start()

    def _relay_lack(self, on: int) -> None:
        """The relay's process has no descriptors left; or has some again."""
        if self.relay.reactor.alive and self.net.lacking is not bool(on):
            self.net.lacking = bool(on)
            if on or (self.relay.works and not self.relay.state.sessions.draining):
                self._fate("refuses new clients" if on else "takes new clients")

    def _relay_disk(self, room: int) -> None:
        """The disk of the journal takes so many bytes; any number where that is negative."""
        if self.disk is not None:
            self.disk.room = None if room < 0 else room

    def _relay_drain(self, on: int) -> None:
        """Refuse new clients, or take them again."""
        if on or not self.net.lacking:
            self._fate("refuses new clients" if on else "takes new clients")
        self.relay.state.sessions.drain(bool(on))

    def _config(self) -> Config:
        settings = self.plan.scene.settings
        return Config(
            (self.plan.scene.listener(self.changed, self.move),),
            memory=settings["memory"],
            stop_timeout=settings["stop_timeout"],
            fast_path=settings["fast"],
            journal=JournalSettings() if self.disk is None else self.disk.settings(),
        )

    def _relay_reload(self, which: int) -> None:
        """Use another configuration."""
        if self.changed == CHANGES[which]:
            return
        self.changed = CHANGES[which]
        self._fate(f"reads its configuration: {' '.join(self.changed)}")
        prepared = self.relay.service.prepare("the simulator", self._config())
        prepared.open()
        _ = prepared.commit().addErrback(lambda failure: self.wrong(f"no reload: {failure.getTraceback()}"))

    def _relay_move(self, which: int) -> None:
        """Begin a phase of the move, as an operator does."""
        if self.plan.scene.moving:
            phase = [*Phase][which]
            self._fate(f"moves to {phase.value}")
            self.relay.state.moves.enter(self.move.name, phase, self.clock.now)

    def _relay_cut(self, which: int, most: int) -> None:
        """Cut the connection of a client."""
        ends = [each.line.end for each in self._there() if each.line is not None]
        end = ends[which % len(ends)] if ends else None
        if end is not None and end.peer is not None:
            detail = f"is cut off after {most} bytes"
            self.history.add(self.clock.now, end.name, What.FATE, detail=detail)
            end.cut(most)

    def _relay_pause(self, which: int, on: bool = True) -> None:
        """Take a broker out of service, as an operator does."""
        known = [*self.relay.state.brokers]
        broker = known[which % len(known)]
        self._fate(f"{broker.broker} is {'taken out of' if on else 'in'} service")
        pauses = self.relay.state.pauses
        (pauses.pause if on else pauses.resume)([broker])

    _relay_resume = partialmethod(_relay_pause, on=False)

    # The end

    def _wait(self, seconds: float, over: Callable[[], bool]) -> None:
        """Let time pass until it is over, but for a step at least, and for so many seconds at most."""
        until = self.clock.now + seconds
        self.clock.run(self.clock.now + STEP)
        while self.clock.now < until and not over():
            self.clock.run(self.clock.now + STEP)

    def _there(self) -> list[Client]:
        """Return the clients that have a connection."""
        return [each for each in self.clients.values() if each.line is not None and not each.line.over]

    def _quiet(self) -> bool:
        """Whether nobody waits, and each session has its client."""
        there = self._there()
        waiting = any(each.leaving or each.awaited or not each.connected for each in there)
        return not waiting and len(self.relay.state.sessions) == len(there)

    def _calm(self) -> None:
        """End the weather: everything works from now on."""
        self.history.add(self.clock.now, "relay", What.CALM)
        self._relay_lack(0)
        self._relay_disk(-1)
        self.net.weather = Weather(slowest=self.net.weather.slowest)
        for broker in self.brokers.values():
            broker.calm()
        self._relay_start()
        if self.relay.works:
            self._relay_reload(-1)
        self.relay.state.pauses.resume([*self.relay.state.brokers])
        self.relay.state.sessions.drain(False)

    def _settle(self) -> None:
        """Each client that is still there settles what it has: the relay must serve it."""
        for client in self.clients.values():
            client.settle()
        self._wait(SETTLING, self._quiet)
        for _ in range(5):
            owing = [each for each in self.clients.values() if each.open and each.owed]
            for client in owing:
                for _ in range(len(client.owed)):
                    client.act("ack", 0, 0)
            if owing:
                self.clock.run(self.clock.now + 5.0)
        for client in self.clients.values():
            client.complain()

    def _leave(self) -> None:
        """All clients go, each in its way."""
        for number, client in enumerate(self.clients.values(), int(self.plan.seed.rpartition("/")[2])):
            client.act("send", number, number // 4 % 2, 0, 0)
            ways = ("disconnect", "vanish", "reset", "half_close")
            client.act(ways[1 + number % 3 if self.plan.scene.mood else number % 4])
        at_brokers = [each.sessions for each in self.brokers.values()]
        self._wait(LEAVING, lambda: not any([*self.relay.sessions().values(), *at_brokers]))

    def _look(self) -> None:
        """Look at what is left of the sessions, and of the relay when it has stopped."""
        for what, count in self.relay.sessions().items():
            if count:
                self.wrong(f"{count} {what} are left after all clients have gone")
        for name, broker in self.brokers.items():
            if broker.sessions:
                count = len(broker.sessions)
                self.wrong(f"broker {name} has {count} connections after all clients have gone")
            for message in chain(*broker.queues.values()):
                broker.note(What.KEPT, detail=message.body.decode(errors="replace"))
        if self.net.dead:
            self.wrong(f"{self.net.dead} connections to brokers were kept though both sides had closed")
        if self.relay.works:
            self._relay_stop()
        self._wait(SETTLING, lambda: not any(each.reactor.alive for each in self.relays))
        for each in self.relays:
            if each.reactor.alive:
                self.wrong(f"process {each.number} of the relay does not stop")
        if self.disk is not None:
            self.history.facts["journal"] = self.disk.recorded()
        counted = [each.counters for relay in self.relays for each in relay.state.sessions.listeners.values()]
        self.history.facts["counters"] = dict(sum(map(Counter, counted), Counter()))
