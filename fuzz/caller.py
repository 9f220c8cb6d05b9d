"""One client, its relay and the sockets between them, and what must hold of each of its effects."""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

from fuzz.broker import Mouth
from fuzz.client import Client
from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Identify, Open, Pass, Report
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.rules import Ground, Identity, Refusal
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, GiveWay, Pause, Resume, Send, Wake
from stomprelay.session.handshake import Credentials
from stomprelay.session.leg import EXPECTED, Leg, LegState, Side
from stomprelay.wire.decoder import SCANNER, Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import (
    BROKER_COMMANDS,
    CLIENT_COMMANDS,
    CONNECT,
    CONNECTED,
    ERROR,
    MESSAGE,
    RECEIPT,
)
from stomprelay.wire.run import Run

if TYPE_CHECKING:
    from fuzz.world import World

ROOMY: Final = Limits(headers=100_000, header_line=1 << 30, body=1 << 40)
HTTP: Final = b"HTTP/1.1 400"
ASKED, PRESSURE, TURN = "asked", "pressure", "turn"


@dataclass(frozen=True)
class Finding:
    """Something that must not be: `what` names the kind, `detail` says more; `place` tells two of a kind apart."""

    what: str
    detail: str
    place: str = ""

    @property
    def signature(self) -> tuple[str, str]:
        """Findings with the same one are taken for one defect."""
        return self.what, self.place


class Stop(Exception):
    """The world ends here: an input raised, or an effect cannot be performed."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.what)
        self.finding = finding


class Peer:
    """One socket of a relay, as the service has it: `waiting` is what the peer wrote and the relay did not read yet,
    None its end.
    """

    def __init__(self, leg: Leg, broker: Broker | None = None) -> None:
        self.leg = leg
        self.broker = broker
        self.waiting: deque[bytes | None] = deque()
        self.mouth: Mouth | None = None
        self.holds: set[str] = set()
        self.accepted = broker is None
        self.closed = False
        self.gone = False
        self.full = False
        self.reported = False
        self.answered = False
        downstream = leg.side is Side.DOWNSTREAM
        self.decoder = Decoder(V1_0, frozenset({CONNECTED, ERROR} if downstream else {CONNECT}), ROOMY)


class Caller:
    """A client, its relay and what belongs to it."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        scene = world.scene
        self.client = Client(scene.client, scene.words)
        self.counters = Counters()
        passes = scene.passes and SCANNER is not None
        self.relay = Relay(scene.front, b"c%d" % number, self.counters, world.chance.random, passes=passes)
        self.passing: dict[Leg, Pass] = {}
        self.peer = Peer(self.relay.client)
        self.peers: dict[Leg, Peer] = {self.relay.client: self.peer}
        self.behind: deque[Peer] = deque()
        self.wake = inf
        self.gone_at = inf
        self.unknown = False
        self.asked: Counter[bytes] = Counter()
        self.told: Counter[bytes] = Counter()
        self._asking: Decoder | None = None
        self.input(inputs.Opened())
        self.says(self.client.connect())

    def says(self, data: bytes) -> None:
        """The client writes something."""
        self.peer.waiting.extend(self.world.scene.words.pieces(data))

    # Inputs

    def input(self, event: inputs.Input) -> None:
        """Give the relay an input and perform what it returns."""
        self._call(self.relay.handle, event, self.world.now)

    def _call(self, act: Callable[..., Iterable[Effect]], *arguments: object) -> None:
        world = self.world
        if world.listen is not None:
            world.listen(self, act, arguments)
        try:
            effects = act(*arguments)
        except Exception as error:
            raise Stop(raised(act.__name__, error)) from None
        world.inputs += 1
        self._perform(effects)

    def reads(self, peer: Peer) -> bool:
        """The relay reads the next piece of a peer. Answers whether there was one to be read."""
        if not peer.waiting or peer.holds or peer.closed or peer.gone or not peer.accepted:
            return False
        data = peer.waiting.popleft()
        if data is None:
            self.loses(peer)
            return True
        if not data:
            return True
        self.world.octets[peer.broker is not None] += len(data)
        if peer.broker is None and self.world.counts_receipts:
            self._counts(data)
        passed = self._pass_on(data, self.passing[peer.leg]) if peer.leg in self.passing else 0
        if passed < len(data):
            data = data[passed:]
            self._call(self.relay.received, peer.leg, data, self.world.now)
        return True

    def _pass_on(self, data: bytes, allowed: Pass) -> int:
        """Send on what may pass without the relay, as a pipe of the service does. Returns how many bytes that is."""
        leg, passing, world = allowed.leg, allowed.passing, self.world
        assert SCANNER is not None
        assert passing is not None
        if allowed.trails and data.endswith(b"\0"):
            return 0
        scanner = SCANNER(
            leg.decoder.limits, leg.decoder.dialect, EXPECTED[leg.side, leg.state], passing.rules
        )
        frames, at, out = 0, 0, b""
        while at < len(data):
            run = scanner.scan(data, at)
            if type(run) is not Run or not passing.takes(run):
                break
            frames += run.count
            at = run.after
            out += (run.instead or run).wire
        if at:
            if world.listen is not None:
                world.listen(self, self._pass_on, (leg, data[:at], world.now))
            self._write(self._peer(allowed.to), out)
            self.relay.passed(leg, allowed.to, frames, at, world.now)
        return at

    def loses(self, peer: Peer, reason: str = "Connection reset by peer") -> None:
        """A peer's connection ends."""
        if peer.closed or peer.gone:
            return
        peer.gone = True
        peer.waiting.clear()
        if peer.broker is None:
            self.gone_at = self.world.now
        elif not peer.accepted:
            self.input(inputs.NotConnected(peer.leg, reason))
            return
        if peer.mouth is not None:
            peer.mouth.lost(self.world.now)
            peer.mouth = None
        self.input(inputs.Lost(peer.leg, reason))

    def identify(self, chance: Random) -> None:
        """It is found out who the client is, or that it may not come in. What it said may be delivered from now on."""
        self.unknown = False
        self.gone_at = max(self.gone_at, self.world.now) if self.peer.gone else self.gone_at
        if chance.random() < 0.7:
            until = self.world.now + chance.choice((inf, inf, 3.0))
            told = chance.choice((None, Credentials(b"app", b"x")))
            self.input(inputs.Identified(Identity("alice", credentials=told, until=until)))
        else:
            self.input(inputs.Unknown(Refusal(Ground.PASSCODE, "another passcode")))

    def takes_turn(self) -> bool:
        """The peer that gave way first goes on. Answers whether there was one."""
        if not self.behind:
            return False
        peer = self.behind.popleft()
        self.release(peer, TURN)
        if not peer.leg.closed:
            self.input(inputs.GaveWay(peer.leg))
        return True

    def accepts(self, peer: Peer) -> None:
        """A broker takes the connection that it was asked for."""
        assert peer.broker is not None
        peer.accepted = True
        peer.mouth = self.world.scene.addresses[peer.broker].opened(self.world.now)
        self.input(inputs.BrokerConnected(peer.leg))

    def hold(self, peer: Peer, why: str) -> None:
        """Stop reading from a peer."""
        if not peer.holds and not peer.closed and not peer.gone:
            self.input(inputs.Paused(peer.leg))
        peer.holds.add(why)

    def release(self, peer: Peer, why: str) -> None:
        """Read from it again, where nothing else is against it."""
        if why in peer.holds:
            peer.holds.discard(why)
            if not peer.holds and not peer.closed and not peer.gone:
                self.input(inputs.Resumed(peer.leg))

    def fill(self, peer: Peer, full: bool) -> None:
        """A peer's socket takes no more, or has room again."""
        peer.full = full
        if peer is self.peer:
            for each in list(self.peers.values()):
                if each.broker is not None and each.accepted and each.leg.state is not LegState.OPENING:
                    (self.hold if full else self.release)(each, PRESSURE)
        elif not full and peer.reported:
            peer.reported = False
            self.input(inputs.Unblocked(peer.leg))
        elif self.relay.coupled:
            (self.hold if full else self.release)(self.peer, PRESSURE)
        elif full and peer.accepted and not peer.closed and not peer.gone:
            peer.reported = True
            self.input(inputs.Blocked(peer.leg))
        if not full:
            self.release(self.peer if peer.broker else peer, PRESSURE)

    # Effects

    def _perform(self, effects: Iterable[Effect]) -> None:
        tell = self.world.tell
        for effect in effects:
            if tell is not None:
                tell(self, effect)
            self.unknown = self.unknown or type(effect) is Identify
            match effect:
                case Send(leg, data):
                    self._write(self._peer(leg), data)
                case Open(leg, broker):
                    self.peers[leg] = Peer(leg, broker)
                case Close(leg):
                    self._close(self._peer(leg))
                case Pause(leg) | Resume(leg):
                    (self.hold if type(effect) is Pause else self.release)(self._peer(leg), ASKED)
                case GiveWay(leg):
                    peer = self._peer(leg)
                    if peer in self.behind:
                        raise Stop(Finding("a leg gives way twice", leg.side.value))
                    self.hold(peer, TURN)
                    self.behind.append(peer)
                case Pass(leg, to, passing):
                    if self._peer(leg).closed or (passing is not None and self._peer(to).closed):
                        raise Stop(Finding("what is closed may pass", leg.side.value))
                    self.passing.pop(leg, None)
                    if passing is not None:
                        self.passing[leg] = effect
                case Report(error):
                    raise Stop(raised("an input", error))
                case Wake(at):
                    if at < self.world.now:
                        raise Stop(Finding("asks to be woken in the past", f"{at} at {self.world.now}"))
                    self.wake = at

    def _peer(self, leg: Leg) -> Peer:
        peer = self.peers.get(leg)
        if peer is None:
            raise Stop(Finding("an effect for a leg that nobody opened", ""))
        return peer

    def _close(self, peer: Peer) -> None:
        if peer.closed:
            raise Stop(Finding("a leg is closed twice", peer.leg.side.value))
        peer.closed = True
        peer.waiting.clear()
        self.passing.pop(peer.leg, None)
        if peer.broker is None:
            self.gone_at = min(self.gone_at, self.world.now)
        if peer.mouth is not None:
            peer.mouth.lost(self.world.now)
            peer.mouth = None

    def _write(self, peer: Peer, data: bytes) -> None:
        side = peer.leg.side.value
        if peer.closed:
            raise Stop(Finding("written to a leg that is closed", f"{side}: {data[:200]!r}", side))
        if peer.gone:
            raise Stop(Finding("written to a peer that is gone", f"{side}: {data[:200]!r}", side))
        if not peer.accepted:
            raise Stop(Finding("written before the connection is there", f"{data[:200]!r}"))
        if not data:
            raise Stop(Finding("nothing is written", side))
        frames = self._decoded(peer, data)
        self.world.frames[peer.broker is not None] += len(frames)
        if peer.broker is None:
            for frame in frames:
                self._heard(frame)
        elif peer.mouth is not None:
            peer.mouth.heard(data, frames, self.world.now)

    def _decoded(self, peer: Peer, data: bytes) -> list[Frame]:
        """Return the frames that were written to a peer, which are whole."""
        frames: list[Frame] = []
        decoder, downstream = peer.decoder, peer.broker is None
        if downstream and data.startswith(HTTP):
            return frames
        try:
            if not peer.answered and not downstream and peer.leg.state is not LegState.OPENING:
                peer.answered = True
                version = peer.leg.dialect.version
                session = self.relay.session
                alike = (
                    session is not None and version == session.dialect.version
                )  # then frames pass as they came
                dialect = DIALECTS[version] if alike else peer.leg.dialect
                if dialect.escaped_names:
                    dialect = replace(dialect, strict=True)
                decoder.expect(dialect, CLIENT_COMMANDS)
            decoder.feed(data)
            for frame in decoder.frames():
                frames.append(frame)
                if frame.command is CONNECTED:
                    dialect = DIALECTS[(frame.raw(b"version") or b"1.0")]
                    if not self.world.scene.tame:  # what a broker says passes as it is
                        dialect = replace(dialect, strict=False)
                    decoder.expect(dialect, BROKER_COMMANDS)
        except StompError as error:
            what = f"what is written to a {peer.leg.side.value} does not decode"
            detail = f"{error.message} ({error.detail}) in {peer.decoder.dialect.version!r}: {data[:300]!r}"
            raise Stop(Finding(what, detail, error.message)) from None
        if decoder.buffered:
            what = f"what is written to a {peer.leg.side.value} is no whole frame"
            raise Stop(Finding(what, f"{data[-300:]!r}"))
        return frames

    def _heard(self, frame: Frame) -> None:
        """The client reads a frame."""
        if frame.command is MESSAGE:
            self.client.delivered(frame)
        elif frame.command is RECEIPT and self.world.counts_receipts:
            dialect = self.peer.decoder.dialect
            receipt = frame.header(b"receipt-id", dialect) or b""
            self.told[receipt] += 1
            if self.told[receipt] > self.asked[receipt]:
                detail = f"{receipt!r}: {self.told[receipt]} for {self.asked[receipt]} requests"
                self.world.found(Finding("a receipt comes that was not asked for", detail))

    def _counts(self, data: bytes) -> None:
        """Count the requests for receipts in what the relay reads of the client."""
        if self._asking is None:
            self._asking = Decoder(V1_0, frozenset({CONNECT, b"STOMP"}), ROOMY)
        try:
            self._asking.feed(data)
            for frame in self._asking.frames():
                receipt = frame.header(b"receipt", self._asking.dialect)
                if receipt is not None:
                    self.asked[receipt] += 1
                if frame.command in (CONNECT, b"STOMP"):
                    self._asking.expect(DIALECTS[self.client.version], CLIENT_COMMANDS)
        except StompError:
            pass  # the relay says so

    @property
    def over(self) -> bool:
        """Whether its relay will do nothing more."""
        return self.relay.over


def raised(name: str, error: BaseException) -> Finding:
    """Return the finding that `name` raised."""
    steps = traceback.extract_tb(error.__traceback__)
    last = steps[-1]
    place = f"{type(error).__name__} in {last.filename.rpartition('stomprelay/')[2]}:{last.name}"
    text = "".join(traceback.format_exception(error, limit=-16))
    return Finding(f"{name} raises", text, place)
