"""A world: it plays a plan, with a real relay service on the world's clock and network, and returns the history."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from sim.brokers import Broker
from sim.clients import Client
from sim.history import History, What
from sim.net import BEGIN, SELECT, SOCKETS, Clock, Network, Reactor, Spinning, Weather
from sim.plan import PLACE, Plan, Step
from stomprelay.config import Config
from stomprelay.service.clients import clients
from stomprelay.service.connection import protocol, relay_driver, runtime
from stomprelay.service.network import sockets
from stomprelay.service.relay import RelayService

LENGTH: Final = 12.0
"""Seconds of the plan's weather, at most."""
SETTLING: Final = 30.0
"""Seconds after the weather in which every session has to come to rest."""
LEAVING: Final = 30.0
"""Seconds after which nothing may be left of sessions whose clients have gone."""


@contextmanager
def simulated() -> Iterator[None]:
    """Let relays of this process use the network of the world that is played. Worlds are played inside."""
    with (
        patch.object(sockets, "socket", SOCKETS),
        patch.object(runtime, "select", SELECT),
        patch.object(protocol, "select", SELECT),
        patch.object(protocol, "send", protocol.send_in_python),
        patch.object(relay_driver, "PIPE", None),
        patch.object(clients, "PIPE", None),
    ):
        yield


class RelayProcess:
    """The relay as one process: a service on a reactor of its own."""

    def __init__(self, plan: Plan, clock: Clock, net: Network, history: History) -> None:
        self.history = history
        self.clock = clock
        self.reactor = Reactor(clock, net)
        config = Config((plan.scene.listener(),), memory=1 << 30)
        self.service = RelayService(config, self.reactor, self.reactor.seconds, self._nanoseconds)
        self.service.clients.prefix = "relay-sim"
        self.service.privilegedStartService()
        self.service.startService()

    def _nanoseconds(self) -> int:
        return int((1_790_000_000 + self.clock.now) * 1e9)


class World:
    """Plays a plan. `tell`: also note each line of the relay's log."""

    def __init__(self, plan: Plan, tell: bool = False) -> None:
        self.plan = plan
        self.tell = tell
        self.clock = Clock()
        self.history = History(scene=plan.scene)
        self.net = Network(self.clock, Random(plan.seed + "/net"), Weather(*plan.scene.weather))
        self.brokers: dict[str, Broker] = {}
        for name, (product, version) in plan.scene.brokers.items():
            self.brokers[name] = Broker(
                name, product, version, self.net, self.history, Random(plan.seed + name)
            )
        self.clients: dict[str, Client] = {}
        for name, habit in plan.scene.clients.items():
            self.clients[name] = Client(name, habit, PLACE, self.net, self.history)

    def wrong(self, text: str) -> None:
        """Add to the history that something is wrong."""
        self.history.add(self.clock.now, "relay", What.WRONG, detail=text)

    def _log(self, event: dict[str, Any]) -> None:
        level = event.get("log_level")
        if level is LogLevel.critical:
            failure = event.get("log_failure")
            self.wrong(f"{formatEvent(event)} {failure.getTraceback() if failure else ''}")
        elif self.tell:
            self.history.add(self.clock.now, "relay", What.LOGGED, detail=formatEvent(event))

    def play(self) -> History:
        """Play the plan to its end, and return the history."""
        SOCKETS.net = SELECT.net = self.net
        random.seed(self.plan.seed)
        globalLogPublisher.addObserver(self._log)
        try:
            self._play()
        except Spinning as error:
            self.wrong(str(error))
        finally:
            globalLogPublisher.removeObserver(self._log)
        return self.history

    def _play(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self.relay = RelayProcess(self.plan, self.clock, self.net, self.history)
        for step in self.plan.steps:
            self.clock.at(BEGIN + step.at, self._step, step)
        self.clock.run(BEGIN + LENGTH)
        self._calm()
        self.clock.run(BEGIN + LENGTH + SETTLING)
        self._settle()
        self._leave()
        self._look()

    # Steps

    def _step(self, step: Step) -> None:
        if step.who in self.clients:
            self.clients[step.who].act(step.act, *step.values)
        elif step.who in self.brokers:
            self._broker(self.brokers[step.who], step)
        else:
            getattr(self, f"_relay_{step.act}")(*step.values)

    def _broker(self, broker: Broker, step: Step) -> None:
        match step.act:
            case "kill":
                broker.kill(*step.values)
            case "start":
                broker.start()
            case "stall":
                broker.stall(bool(step.values[0]))
            case "mood":
                broker.feel(("", "refuses", "goes")[step.values[0]])
            case "cut" if broker.sessions:
                which, most = step.values
                session = broker.sessions[which % len(broker.sessions)]
                broker.note(
                    What.FATE, session.number, detail=f"is cut off; of what is on its way {most} bytes arrive"
                )
                session.line.end.cut(most)

    def _relay_cut(self, which: int, most: int) -> None:
        """Cut the connection of a client."""
        lines = [each.line for each in self.clients.values() if each.line is not None and not each.line.over]
        if lines:
            line = lines[which % len(lines)]
            if line.end.peer is not None:
                self.history.add(
                    self.clock.now, line.end.name, What.FATE, detail=f"is cut off after {most} bytes"
                )
                line.end.cut(most)

    def _relay_pause(self, which: int) -> None:
        """Take a broker out of service, as an operator does."""
        self._pause(which, True)

    def _relay_resume(self, which: int) -> None:
        """Take a broker into service again."""
        self._pause(which, False)

    def _pause(self, which: int, on: bool) -> None:
        state = self.relay.service.state
        known = [*state.brokers]
        broker = known[which % len(known)]
        self.history.add(
            self.clock.now,
            "relay",
            What.FATE,
            detail=f"{broker.broker} is {'taken out of' if on else 'in'} service",
        )
        if on:
            state.pauses.pause([broker])
        else:
            state.pauses.resume([broker])

    # The end

    def _calm(self) -> None:
        """End the weather: everything works from now on."""
        self.history.add(self.clock.now, "relay", What.CALM)
        self.net.weather.short = self.net.weather.pieces = 0.0
        for broker in self.brokers.values():
            broker.stall(False)
            broker.start()
            broker.feel("")
        state = self.relay.service.state
        state.pauses.resume([*state.brokers])

    def _settle(self) -> None:
        """Each client that is still there settles what it has: the relay must serve it."""
        for client in self.clients.values():
            while client.open and client.transactions:
                client.act("abort", 0, 1)
            client.act("send", 0, 1, 0, 0)
        self.clock.run(self.clock.now + SETTLING)
        for client in self.clients.values():
            for _ in range(len(client.owed)):
                client.act("ack", 0, 0)
        self.clock.run(self.clock.now + 5.0)
        for client in self.clients.values():
            if client.open and not client.connected:
                self.history.add(
                    self.clock.now, client.name, What.WRONG, detail="was not answered in calm weather"
                )
            for receipt, frame in client.awaited.items():
                if client.open:
                    detail = f"got no RECEIPT {receipt.decode()} in calm weather, for {frame}"
                    self.history.add(self.clock.now, client.name, What.WRONG, client.session, detail=detail)

    def _leave(self) -> None:
        """All clients go, each in its way."""
        for number, client in enumerate(self.clients.values(), int(self.plan.seed.rpartition("/")[2])):
            client.act("send", number, number // 4 % 2, 0, 0)
            client.act(("disconnect", "vanish", "reset", "half_close")[number % 4])
        self.clock.run(self.clock.now + LEAVING)

    def _look(self) -> None:
        """Look at what is left of the sessions, and of the relay when it has stopped."""
        service = self.relay.service
        state, runtime = service.state, self.relay.service.state.runtime
        for what, count in (
            ("sessions", len(state.sessions)),
            ("legs", len(runtime.protocols)),
            ("connections", runtime.sockets),
            (
                "sessions of brokers",
                sum(each.broker.health.sessions + each.broker.health.coming for each in state.brokers),
            ),
        ):
            if count:
                self.wrong(f"{count} {what} are left after all clients have gone")
        for broker in self.brokers.values():
            if broker.sessions:
                self.wrong(
                    f"broker {broker.name} has {len(broker.sessions)} connections after all clients have gone"
                )
            for message in broker.remaining():
                broker.note(What.KEPT, detail=message.body.decode())
        if self.net.dead:
            self.wrong(f"{self.net.dead} connections to brokers were kept though both sides had closed")
        self.history.facts["counters"] = {
            name: count for each in state.sessions.listeners.values() for name, count in each.counters.items()
        }
        service.stopService()
        self.clock.run(self.clock.now + 30.0)
        if left := [call for call in self.relay.reactor.getDelayedCalls()]:
            self.wrong(f"calls are left of a relay that has stopped: {left}")
        if self.relay.reactor.open_ends():
            self.wrong("sockets are left of a relay that has stopped")
        for error in self.relay.reactor.faults:
            self.wrong(f"an exception reached the reactor: {error!r}")
