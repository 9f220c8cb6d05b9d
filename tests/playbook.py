"""Conversations with a relay, as scripts: who says what, who gets what, and what time does to them.

A `Playbook` stands for everything around the core: the client's socket, the broker's, and a clock of plain
numbers. It performs effects as the service does, and holds every conversation to what is always true: whole
frames only are written to a broker, nothing is written to a leg after its `Close`, nobody is woken in the past.

    with Playbook() as play:
        play.client_says(b"CONNECT\\naccept-version:1.2\\nhost:/\\n\\n\\0")
        play.broker_accepts()
        play.broker_gets(b"CONNECT\\naccept-version:1.0,1.1,1.2\\nhost:/\\nheart-beat:10000,10000\\n\\n\\0")
        play.broker_says(b"CONNECTED\\nversion:1.2\\n\\n\\0")
        play.client_gets(b"CONNECTED\\nversion:1.2\\nsession:relay-session\\n\\n\\0")

What was written and never asked for fails the script when it ends.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from math import inf
from types import TracebackType
from typing import Any, Final, Self

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import KILLED, Effect, Identify, Open, Pass, Took
from stomprelay.relay.link.link import DISCONNECTING
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rates import Limiter
from stomprelay.relay.model.rules import AccessRules, Claim, Ground, Identity, Refusal
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Side
from tests.passing import passed_on

VERSIONS: Final = (b"1.0", b"1.1", b"1.2")
PAIRS: Final = tuple((client, broker) for client in VERSIONS for broker in VERSIONS)
"""Client's version, broker's version: all nine."""

URI: Final = "tcp://broker:61613"


class Cut(Enum):
    """How a socket cuts what a peer says."""

    WHOLE = "whole"
    OCTETS = "octet by octet"
    TRAILED = "with NULs and EOLs behind"
    PASSED = "whole, and sent straight on where that is allowed"

    def chunks(self, data: bytes) -> Iterable[bytes]:
        """The chunks that arrive when `data` was said."""
        if self is Cut.OCTETS:
            return [data[at : at + 1] for at in range(len(data))]
        # The NUL comes first: an LF right behind a frame may pass with it, as nothing else between frames does.
        return [data + b"\0\r\n\n" if self is Cut.TRAILED else data]


CUTS: Final = tuple(Cut)

in_all_pairs = pytest.mark.parametrize(("client", "broker"), PAIRS, ids=bytes.decode)
"""Runs a test in all nine pairs of versions; it takes `client` and `broker`."""

in_all_cuts = pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name.lower())
"""Runs a test with what is said whole, octet by octet, with more behind, and sent straight on; it takes `cut`."""

in_cuts_of_halves = pytest.mark.parametrize("cut", CUTS[:2], ids=lambda cut: cut.name.lower())
"""The same for a test that says half a frame, behind which nothing else can come."""


def upstream(**settings: Any) -> Upstream:
    """An upstream called `main` with one broker, and these settings in place of the defaults."""
    settings.setdefault("groups", alone(Broker(URI, "tcp:broker:61613")))
    return Upstream("main", **settings)


def listener(over: Upstream | None = None, **settings: Any) -> Listener:
    """A listener called `public` with these settings in place of the defaults."""
    return Listener("public", "tcp:61613", over or upstream(), **settings)


class Peer:
    """One socket as the service holds it: what was written, whether it is read from, how it was closed. `arriving`: it
    was asked for a session that is to move.
    """

    def __init__(self, leg: Leg, uri: str = "") -> None:
        self.leg = leg
        self.uri = uri
        self.written = b""
        self.unheard: list[bytes] = []
        self.pauses = 0
        self.paused = False
        self.closed: How | None = None
        self.accepted = leg.side is Side.DOWNSTREAM
        self.arriving = False


class Playbook(AbstractContextManager["Playbook"]):
    """A client that has just opened its connection, a relay, and whatever broker the script plays.

    `front` is the listener (its upstream included), `cut` how sockets cut what is said to the relay, `hello` what the
    client says at once. Where several brokers play at once, `at` is the address of the one that is meant; without it,
    it is the one that the relay turned to last. While it is `busy`, who gave way has no turn but by `turn_comes`. With
    `passes` it performs `Pass`; `passed` counts the frames that passed so. `limiter` is the listener's; `address` is
    the client's. `claims` are those of clients of whom it is asked who they are. A DISCONNECT of the relay's own each
    broker answers at once, and no script sees it; unless they do not `part`.
    """

    part = True

    def __init__(
        self,
        front: Listener | None = None,
        *,
        cut: Cut = Cut.WHOLE,
        hello: bytes = b"",
        passes: bool = False,
        counter: DestinationCounter | None = None,
        limiter: Limiter | None = None,
        address: str | None = None,
    ) -> None:
        self.counters = Counters()
        passes = passes or cut is Cut.PASSED
        name, front = b"relay-session", front or listener()
        self.relay = Relay(
            front, name, self.counters, passes=passes, counter=counter, limiter=limiter, address=address
        )
        self.passing: dict[Leg, Pass] = {}
        self.passed = 0
        self.cut = cut
        self.now = 1000.0
        self.wake = inf
        self.notes: list[Note] = []
        self.took: list[Took] = []
        self.claims: list[Claim] = []
        self.opened: list[Broker] = []
        self.client = Peer(self.relay.client)
        self.brokers: list[Peer] = []
        self.busy = False
        self._parting: list[Peer] = []
        self._goodbye = b"receipt:%b-goodbye\n\n\0" % name
        self._behind: list[Leg] = []
        self._perform(self.relay.handle(inputs.Opened(), self.now))
        if hello:
            self.client_says(hello)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.nobody_gets_more()

    def __enter__(self) -> Self:
        return self

    # What happens

    def client_says(self, data: bytes, *, unasked: bool = False) -> None:
        """The client wrote this. `unasked`: it arrives even though the relay paused the client."""
        self._says(self.client, data, unasked=unasked)

    def broker_says(self, data: bytes, *, unasked: bool = False, at: str | None = None) -> None:
        """The broker wrote this."""
        self._says(self.at(at), data, unasked=unasked)

    def broker_accepts(self, *, at: str | None = None) -> None:
        """The connection to the broker is there."""
        peer = self.at(at)
        peer.accepted = True
        self._perform(self.relay.handle(inputs.BrokerConnected(peer.leg), self.now))

    def broker_is_asked(self, *, at: str | None = None) -> bytes:
        """The connection to the broker is there. Returns the CONNECT that it gets."""
        self.broker_accepts(at=at)
        data = self.broker_reads(at=at)
        assert data.startswith(b"CONNECT\n")
        return data

    def broker_welcomes(
        self,
        version: bytes = b"1.2",
        product: str = "generic",
        welcome: bytes = b"",
        *,
        at: str | None = None,
    ) -> None:
        """The connection to the broker is there, and it answers CONNECT with CONNECTED."""
        self.broker_is_asked(at=at)
        self.broker_says(said_welcome(version, product, welcome), at=at)

    def broker_refuses(self, reason: str = "Connection refused", *, at: str | None = None) -> None:
        """The connection to the broker cannot be had."""
        self._perform(self.relay.handle(inputs.NotConnected(self.at(at).leg, reason), self.now))

    def client_tells_broker(self, data: bytes, told: bytes | None = None, *, at: str | None = None) -> None:
        """The client says this, and the broker gets it: as it was said, or as it is `told`."""
        self.client_says(data)
        self.broker_gets(data if told is None else told, at=at)

    def broker_tells_client(self, data: bytes, told: bytes | None = None, *, at: str | None = None) -> None:
        """The broker says this, and the client gets it: as it was said, or as it is `told`."""
        self.broker_says(data, at=at)
        self.client_gets(data if told is None else told)

    def client_errs(self, data: bytes, message: bytes, *, receipt: bytes | None = None) -> None:
        """The client says this, gets an ERROR with this `message`, and its connection ends."""
        self.client_says(data)
        self.client_gets_error(message, receipt=receipt)

    def client_said(self, data: bytes) -> None:
        """The client says this, and nobody looks at what brokers are told of it."""
        self.client_says(data)
        for peer in self.brokers:
            peer.written = b""

    def broker_said(self, data: bytes, *, at: str | None = None) -> None:
        """The broker says this, and nobody looks at what the client gets of it."""
        self.broker_says(data, at=at)
        self.client.written = b""

    def client_half_closes(self) -> None:
        """The client closed its direction: it sends nothing more."""
        self._perform(self.relay.handle(inputs.HalfClosed(), self.now))

    def client_goes(self, reason: str = "Connection reset by peer") -> None:
        """The client's connection ended."""
        self._perform(self.relay.handle(inputs.Lost(self.client.leg, reason), self.now))

    def broker_goes(self, reason: str = "Connection was closed cleanly.", *, at: str | None = None) -> None:
        """The broker's connection ended."""
        self._perform(self.relay.handle(inputs.Lost(self.at(at).leg, reason), self.now))

    def broker_is_blocked(self, *, at: str | None = None) -> None:
        """What is written to one of several brokers stays in its socket, which concerns nobody else."""
        assert not self.relay.coupled
        assert self.relay.handle(inputs.Blocked(self.at(at).leg), self.now) == []

    def broker_is_unblocked(self, *, at: str | None = None) -> None:
        """The socket of that broker has room again."""
        self._perform(self.relay.handle(inputs.Unblocked(self.at(at).leg), self.now))

    def client_is(self, identity: Identity) -> None:
        """It was found out who the client is."""
        self._perform(self.relay.handle(inputs.Identified(identity), self.now))

    def client_is_unknown(self, reason: str = "passcode", text: str = "another passcode") -> None:
        """It was found out that the client may not come in."""
        self._perform(self.relay.handle(inputs.Unknown(Refusal(Ground(reason), text)), self.now))

    def relay_begins_to_stop(self) -> None:
        """The service is told to stop, and gives its sessions time."""
        self._perform(self.relay.handle(inputs.StopBegan(), self.now))

    def relay_stops(self) -> None:
        """The service stops, whatever is left to be done."""
        self._perform(self.relay.handle(inputs.Stopped(), self.now))

    def operator_kills(self) -> None:
        """An operator ends the session."""
        self._perform(self.relay.handle(inputs.Killed(KILLED), self.now))

    def rules_change(self, rules: AccessRules | None) -> None:
        """The configuration was read anew, and has these rules for the listener."""
        self._perform(self.relay.handle(inputs.Ruled(rules), self.now))

    def broker_is_slow(self) -> None:
        """What is written to the broker stays in its socket, so the service stops reading from the client."""
        self._pause(self.client)

    def broker_is_quick_again(self) -> None:
        """The broker's socket is empty, so the service reads from the client again."""
        self._perform(self._resumed(self.client))

    def time_passes(self, seconds: float) -> None:
        """The clock goes on; whoever asked to be woken meanwhile is, at that time."""
        end = self.now + seconds
        for _ in range(1000):
            if self.wake > end:
                self.now = end
                return
            self.now = max(self.now, self.wake)
            self.wake = inf
            self._perform(self.relay.handle(inputs.Woke(), self.now))
        raise AssertionError("the relay asks to be woken again and again")

    def alarm_rings_early(self) -> None:
        """The clock is rough: the relay is woken now, whatever it asked for."""
        self._perform(self.relay.handle(inputs.Woke(), self.now))

    # What is expected

    def client_gets(self, expected: bytes) -> None:
        """These octets were written to the client since the last look, and no others but EOLs behind frames."""
        assert self.client_reads() == expected.replace(b"\0\n", b"\0")

    def client_gets_exactly(self, expected: bytes) -> None:
        """These octets were written to the client since the last look, and no others."""
        assert self.client_reads_all() == expected

    def broker_gets(self, expected: bytes, *, at: str | None = None) -> None:
        """These octets were written to the broker since the last look, and no others."""
        assert self.broker_reads(at=at) == expected

    def client_gets_error(self, message: bytes, *, receipt: bytes | None = None, detail: bytes = b"") -> None:
        """The client got one ERROR of the relay's own, with this `message` and `detail`, and its connection ends."""
        data = self.client_reads()
        named = b"" if receipt is None else b"receipt-id:" + receipt + b"\n"
        assert data.startswith(b"ERROR\nmessage:" + message + b"\n" + named), data
        assert receipt is not None or b"\nreceipt-id:" not in data
        assert detail in data
        assert data.endswith(b"\0")
        assert data.count(b"\0") == 1
        self.client_is_closed(How.LINGER)

    def nobody_gets_more(self) -> None:
        """Nothing was written that the script did not ask for."""
        assert self.client_reads() == b""
        for peer in self.brokers:
            assert peer.written == b""

    def client_reads(self) -> bytes:
        """What was written to the client since the last look, without the EOLs behind frames."""
        return self.client_reads_all().replace(b"\0\n", b"\0")

    def client_reads_all(self) -> bytes:
        """What was written to the client since the last look."""
        data, self.client.written = self.client.written, b""
        return data

    def broker_reads(self, *, at: str | None = None) -> bytes:
        """What was written to the broker since the last look."""
        peer = self.at(at)
        data, peer.written = peer.written, b""
        return data

    def client_is_closed(self, how: How = How.LINGER) -> None:
        """The relay closed the client's connection in this way."""
        assert self.client.closed is how

    def broker_is_closed(self, how: How = How.LINGER, *, at: str | None = None) -> None:
        """The relay closed the broker's connection in this way."""
        assert self.at(at).closed is how

    def both_are_closed(self) -> None:
        """The relay closed both connections, each when what was written had gone out."""
        self.client_is_closed()
        self.broker_is_closed()

    def both_stay(self) -> None:
        """Neither connection was closed."""
        assert self.client.closed is None
        assert self.broker.closed is None

    def noted(self, event: Event) -> str:
        """The text of the last note of this kind; it fails when there is none."""
        texts = [note.text for note in self.notes if note.event is event]
        assert texts, f"no note of {event}"
        return texts[-1]

    def facts(self, event: Event) -> list[dict[str, str | int]]:
        """The facts of all notes of this kind, in order."""
        return [dict(note.facts) for note in self.notes if note.event is event]

    @property
    def broker(self) -> Peer:
        """The broker's connection that the relay asked for last."""
        return self.at()

    def at(self, uri: str | None = None) -> Peer:
        """The connection to the broker with this address that the relay asked for last; without an address, but for one
        that a session is still to move to.
        """
        asked = [peer for peer in self.brokers if uri in (None, peer.uri)]
        assert asked, "no such broker was asked for"
        current = [link.state.leg for link in self.relay.links]
        return [peer for peer in asked if uri or not peer.arriving or peer.leg in current][-1]

    # The service's part

    def _says(self, peer: Peer, data: bytes, *, unasked: bool) -> None:
        for chunk in self.cut.chunks(data):
            peer.unheard.append(chunk)
            if unasked:
                self._hear(peer)
        self._read()

    def _read(self) -> None:
        """Sockets are read while nobody paused them; who is closed is read into nothing."""
        self._part()
        while ready := [peer for peer in (self.client, *self.brokers) if peer.unheard and not peer.paused]:
            self._hear(ready[0])
            self._take_turns()
            self._part()

    def _part(self) -> None:
        """Brokers answer the DISCONNECT that the relay sent in the client's place."""
        while self._parting:
            data = b"RECEIPT\n" + self._goodbye.replace(b"receipt:", b"receipt-id:")
            self._do(self.relay.received(self._parting.pop().leg, data, self.now))
            self._take_turns()

    def _hear(self, peer: Peer) -> None:
        chunk = peer.unheard.pop(0)
        before = peer.closed
        if before is None and peer.leg in self.passing:
            chunk = self._pass_on(chunk, self.passing[peer.leg])
            if not chunk:
                return
        effects = self.relay.received(peer.leg, chunk, self.now)
        assert before is None or not effects, "a closed leg was listened to"
        self._do(effects)

    def _pass_on(self, chunk: bytes, order: Pass) -> bytes:
        """Send on what may pass. Returns the rest, for the relay."""
        frames, size, out = passed_on(chunk, order)
        if size:
            self._write(self._peer(order.to), out)
            self.relay.passed(order.leg, order.to, frames, size, self.now)
            self.passed += frames
        return chunk[size:]

    def _perform(self, effects: Iterable[Effect]) -> None:
        """All effects of one input, in order, before anything else is read."""
        self._do(effects)
        self._take_turns()
        self._read()

    def _take_turns(self) -> None:
        while self._behind and not self.busy:
            self.turn_comes()

    def turn_comes(self) -> Leg:
        """Others had their turn: the leg that gave way first goes on, and is returned."""
        leg = self._behind.pop(0)
        self._do(self.relay.handle(inputs.GaveWay(leg), self.now))
        self._part()
        return leg

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(leg, data):
                    if not (self.part and data is DISCONNECTING):
                        self._write(self._peer(leg), data)
                case Open(leg, broker):
                    self.opened.append(broker)
                    self.brokers.append(Peer(leg, broker.uri))
                    self.brokers[-1].arriving = any(
                        link.following is not None and link.following.leg is leg for link in self.relay.links
                    )
                case Close(leg, how):
                    peer = self._peer(leg)
                    assert peer.closed is None, "closed twice"
                    peer.closed = how
                    self.passing.pop(leg, None)
                case Pause(leg):
                    self._pause(self._peer(leg))
                case Resume(leg):
                    self._do(self._resumed(self._peer(leg)))
                case GiveWay(leg):
                    assert leg not in self._behind, "it gives way twice"
                    self._behind.append(leg)
                case Wake(at):
                    assert at >= self.now, "woken in the past"
                    self.wake = at
                case Pass(leg, to, passing):
                    assert self._peer(leg).closed is None, "nobody is there"
                    assert passing is None or self._peer(to).closed is None, "nobody is there"
                    self.passing.pop(leg, None)
                    if passing is not None:
                        self.passing[leg] = effect
                case Note():
                    self.notes.append(effect)
                case Identify(leg, claim):
                    assert leg is self.client.leg
                    self.claims.append(claim)
                case Took():
                    self.took.append(effect)

    def _peer(self, leg: Leg) -> Peer:
        for peer in (self.client, *self.brokers):
            if peer.leg is leg:
                return peer
        raise AssertionError("an effect for a leg that nobody opened")

    def _write(self, peer: Peer, data: bytes) -> None:
        assert peer.closed is None, f"written after Close: {data!r}"
        assert peer.accepted, f"written before the connection was there: {data!r}"
        assert data, "nothing was written"
        if peer is not self.client:
            assert data == b"\n" or data.endswith((b"\0", b"\0\n")), f"not whole frames: {data!r}"
        if self.part and data.rstrip(b"\n").endswith(self._goodbye):
            self._parting.append(peer)
            return
        peer.written += data

    def _pause(self, peer: Peer) -> None:
        peer.paused = True
        peer.pauses += 1
        self._do(self.relay.handle(inputs.Paused(peer.leg), self.now))

    def _resumed(self, peer: Peer) -> list[Effect]:
        peer.paused = False
        return self.relay.handle(inputs.Resumed(peer.leg), self.now)


SAY_HELLO: Final = {
    b"1.0": b"CONNECT\n\n\0",
    b"1.1": b"CONNECT\naccept-version:1.1\nhost:/\n\n\0",
    b"1.2": b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
}
"""A client's CONNECT, by its version."""

SAY_WELCOME: Final = {
    b"1.0": b"CONNECTED\nsession:s-1\n\n\0",
    b"1.1": b"CONNECTED\nversion:1.1\nsession:s-1\n\n\0",
    b"1.2": b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0",
}
"""A broker's CONNECTED, by its version; it names no product and wants no beats."""

PRODUCTS: Final = {
    "generic": b"",
    "rabbitmq": b"server:RabbitMQ/3.10.8\n",
    "activemq": b"server:ActiveMQ/5.17.2\n",
    "artemis": b"server:ActiveMQ-Artemis/2.31.2 ActiveMQ Artemis Messaging Engine\n",
}
"""What a product says of itself in CONNECTED."""


def said_welcome(version: bytes, product: str = "generic", welcome: bytes = b"") -> bytes:
    """CONNECTED of a product in a version, with more headers."""
    return SAY_WELCOME[version].replace(b"CONNECTED\n", b"CONNECTED\n" + PRODUCTS[product] + welcome)


def joined(
    client: bytes,
    broker: bytes,
    *,
    product: str = "generic",
    cut: Cut = Cut.WHOLE,
    over: Callable[[Upstream], Upstream] = lambda each: each,
    hello: bytes = b"",
    welcome: bytes = b"",
    **settings: Any,
) -> Playbook:
    """A playbook whose client and broker shook hands already, in these two versions.

    `over` changes the upstream, `settings` the listener; `hello` and `welcome` are more headers of CONNECT and
    CONNECTED, each with its LF.
    """
    asked = None if client == broker else frozenset({broker})
    front = listener(over(upstream(versions=asked)), **settings)
    play = Playbook(front, cut=cut)
    play.client_says(SAY_HELLO[client].replace(b"CONNECT\n", b"CONNECT\n" + hello))
    play.broker_welcomes(broker, product, welcome)
    assert play.client_reads().startswith(b"CONNECTED\n")
    play.both_stay()
    return play
