"""One world: relays with their clients and brokers, a clock, and what must hold whatever is said.

No input of a relay raises. Once its client is gone a session ends within `disconnect_timeout`; then every leg is
closed, nobody asks to be woken, and no broker's health counts the session. Nothing is written to a leg that is closed
or whose peer is gone, and what is written decodes as whole frames in the leg's own version. With brokers that do the
same each receipt comes at most once for a request; with clients that do, an ACK reaches the message that it names.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from random import Random
from typing import Final

from fuzz.broker import Embedded, Scripted
from fuzz.caller import Caller, Finding, Peer, Stop
from fuzz.scene import Scene, draw
from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect

OFTEN: Final = 500
"""So many wakes at one moment are a loop."""

SLACK: Final = 0.001
"""Seconds by which an end may be late: times are sums."""

LONG: Final = 10_000.0
"""Seconds after which a session that has no end is given up."""


class World:
    """The world of this number. `run` plays it; `findings` is what must not be. `listen` is called with each input
    before it is, `tell` with each effect.
    """

    listen: Callable[[Caller, Callable[..., object], tuple[object, ...]], None] | None = None
    tell: Callable[[Caller, Effect], None] | None = None

    def __init__(self, seed: int, number: int) -> None:
        self.chance = Random(f"{seed}/{number}")
        self.now = 1000.0
        self.large = self.chance.random() < 0.02
        self.scene: Scene = draw(self.chance, large=self.large)
        # Of its own, so that worlds of before stay what they were.
        self._knows = Random(f"{seed}/{number}/who")
        if self._knows.random() < 0.2:
            self.scene.front = replace(self.scene.front, auth="people")
        self.findings: list[Finding] = []
        self.octets = [0, 0]
        self.frames = [0, 0]
        self.inputs = 0
        self.counts_receipts = self.scene.honest and self.scene.tame
        self._callers: list[Caller] = []
        self._stopped = False

    def found(self, finding: Finding) -> None:
        """Something that must not be was seen; the world goes on."""
        self.findings.append(finding)

    def run(self) -> None:
        """Play the world to its end."""
        try:
            self._play()
            self._end()
        except Stop as stop:
            self.found(stop.finding)

    # The play

    def _play(self) -> None:
        random = self.chance.random
        self._callers = [Caller(self, number) for number in range(1 if random() < 0.7 else 2)]
        for _ in range(int(random() * 60) + (40 if self.large else 5)):
            for caller in self._callers:
                self._step(caller)
            if random() < 0.15:
                self._pass(self._time())
        if random() < 0.1:
            for caller in self._callers:
                caller.input(inputs.StopBegan())
            self._pass(self._time())
            for caller in self._callers:
                self._flow(caller, 8)
                if random() < 0.7:
                    caller.input(inputs.Stopped())

    def _time(self) -> float:
        return (0.0, 0.011, 0.1, 0.5, 1.1, 6.0, 40.0)[int(self.chance.random() * 7)]

    def _step(self, caller: Caller) -> None:
        random, peer = self.chance.random, caller.peer
        if not peer.gone and not peer.closed and len(peer.waiting) < 20 and random() < 0.8:
            caller.says(caller.client.speech())
        if random() < 0.12:
            self._fate(caller)
        if caller.unknown and self._knows.random() < 0.3:
            caller.identify(self._knows)
        self._flow(caller, 1 + int(random() * 8))

    def _flow(self, caller: Caller, rounds: int) -> None:
        """Bytes move: connections are made, brokers answer, the relay reads."""
        random = self.chance.random
        for _ in range(rounds):
            moved = False
            for peer in list(caller.peers.values()):
                if peer.closed or peer.gone:
                    continue
                if peer.broker is not None:
                    moved = self._broker(caller, peer) or moved
                if random() < 0.9:
                    moved = caller.reads(peer) or moved
            if random() < 0.7:
                moved = caller.takes_turn() or moved
            if not moved:
                return

    def _broker(self, caller: Caller, peer: Peer) -> bool:
        random = self.chance.random
        if not peer.accepted:
            dice = random()
            if dice < 0.8:
                caller.accepts(peer)
            elif dice < 0.85:
                caller.loses(peer, "Connection refused")
            return dice < 0.85
        mouth = peer.mouth
        if mouth is None:
            return False
        if mouth.wake <= self.now or random() < 0.3:
            mouth.woke(self.now)
        said = bool(mouth.said)
        while mouth.said:
            data = mouth.said.popleft()
            if data is None:
                peer.waiting.append(None)
                break
            peer.waiting.extend(self.scene.words.pieces(data))
        return said

    def _fate(self, caller: Caller) -> None:
        """Something happens to a connection, or an operator wants something."""
        random = self.chance.random
        peers = [peer for peer in caller.peers.values() if not peer.closed and not peer.gone]
        brokers = [peer for peer in peers if peer.broker is not None]
        dice = random()
        if dice < 0.3 and brokers:
            caller.loses(brokers[int(random() * len(brokers))])
        elif dice < 0.34:
            caller.loses(caller.peer)
        elif dice < 0.55 and peers:
            peer = peers[int(random() * len(peers))]
            caller.fill(peer, not peer.full)
        elif dice < 0.65:
            caller.input(inputs.Woke())
        elif dice < 0.85:
            upstreams = self.scene.front.upstreams()
            brokers_known = [broker for each in upstreams for broker in each.brokers]
            broker = brokers_known[int(random() * len(brokers_known))]
            if random() < 0.5:
                broker.health.paused = True
                for each in self._callers:
                    each.input(inputs.Leave(broker, (0.0, 0.5, 5.0)[int(random() * 3)]))
            else:
                broker.health.paused = False
                for each in self._callers:
                    each.input(inputs.Reconsidered())
        else:
            caller.input(inputs.Reconsidered())

    # Time

    def _pass(self, seconds: float) -> None:
        end = self.now + seconds
        count, last = 0, -inf
        while True:
            due = min([caller.wake for caller in self._callers], default=inf)
            if due > end:
                break
            self.now = max(self.now, due)
            if self.now == last:
                count += 1
                if count > OFTEN:
                    raise Stop(Finding("asks to be woken again and again at one moment", ""))
            else:
                count, last = 0, self.now
            for caller in self._callers:
                if caller.wake <= self.now:
                    caller.wake = inf
                    caller.input(inputs.Woke())
                    if self.chance.random() < 0.5:
                        self._flow(caller, 3)
        self.now = end

    # The end

    def _end(self) -> None:
        """All clients go. In a world of its own mood or in a quiet one, each session ends in time."""
        lively = self.chance.random() < 0.5
        for caller in self._callers:
            for peer in list(caller.peers.values()):
                if peer.full:
                    caller.fill(peer, False)
            caller.loses(caller.peer)
            if caller.unknown:
                caller.identify(self._knows)
        for caller in self._callers:
            within = max(each.disconnect_timeout for each in self.scene.front.upstreams())
            late = caller.gone_at + within + SLACK
            self._until(caller, late if caller.gone_at < inf else self.now, lively=lively)
            if not caller.over:
                self._until(caller, self.now + LONG, lively=lively)
                self.found(_late(caller, self.now - caller.gone_at, within))
        for caller in self._callers:
            self._settled(caller)
        self._ask_brokers()

    def _ask_brokers(self) -> None:
        """Look at what is left of the sessions at the brokers, and at what these saw."""
        over = all(caller.over for caller in self._callers)
        for broker in self.scene.addresses if over else ():
            if broker.health.sessions or broker.health.coming:
                detail = f"{broker}: {broker.health.sessions} sessions, {broker.health.coming} coming"
                self.found(Finding("a broker's health counts what is over", detail))
        for address in self.scene.addresses.values():
            if isinstance(address, Scripted):
                for each in address.astray[:1]:
                    self.found(Finding("an ACK reached another message than the one that it is for", each))
            if over and isinstance(address, Embedded) and len(address.broker.connections):
                self.found(Finding("a broker has a connection that is over", ""))

    def _until(self, caller: Caller, end: float, *, lively: bool) -> None:
        """Let time pass up to `end`, or until the session is over; brokers answer where they are `lively`."""
        for _ in range(5000):
            if lively:
                self._flow(caller, 4)
            while caller.takes_turn():
                pass
            if caller.over or caller.wake > end:
                break
            self._pass(max(0.0, caller.wake - self.now))
        if not caller.over:
            self._pass(max(0.0, end - self.now))

    def _settled(self, caller: Caller) -> None:
        if not caller.over:
            return
        if caller.wake < inf:
            self.found(Finding("a session that is over asks to be woken", ""))
        for peer in caller.peers.values():
            if not (peer.closed or peer.gone):
                self.found(Finding("a session that is over has a leg that is open", peer.leg.side.value))


def _late(caller: Caller, seconds: float, within: float) -> Finding:
    limit = f"the limit is {within:g} s"
    if caller.over:
        return Finding("a session outlives its client", f"it ends {seconds:g} s after its client; {limit}")
    return Finding("a session has no end", limit)
