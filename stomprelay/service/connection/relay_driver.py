"""Drives one relay: a client's connection, its brokers' connections, and back-pressure between them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from twisted.internet.interfaces import IPushProducer, IStreamClientEndpoint
from twisted.logger import LogLevel
from zope.interface import implementer

from stomprelay.journal.capture import LegRecorder, Records, SessionRecorder
from stomprelay.journal.schema import JournalEvent
from stomprelay.relay.effects import Effect, Identify, Open, Pass, Report, Took
from stomprelay.relay.inputs import (
    Blocked,
    BrokerConnected,
    GaveWay,
    HalfClosed,
    Input,
    Lost,
    NotConnected,
    Opened,
    Paused,
    Resumed,
    Unblocked,
    Woke,
)
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.features import FEATURES
from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.relay.model.mapping import PRIVATE
from stomprelay.relay.model.rules import Claim
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.failures import ASKED, JOURNAL, MEMORY, PRESSURE
from stomprelay.service.connection.memory import SESSION
from stomprelay.service.connection.protocol import PIPE, Driver, LegProtocol
from stomprelay.service.connection.runtime import (
    Timed,
    log_note,
    spell_address,
    spell_text,
    unlogged,
)
from stomprelay.service.log import counted, logger, write
from stomprelay.service.network.endpoints import BrokerEndpoint
from stomprelay.service.network.proxy_protocol import ProxyHeaderEndpoint, header
from stomprelay.session.effects import Event, Note, Resume
from stomprelay.session.leg import EXPECTED, Leg, LegState
from stomprelay.session.reasons import spell_fault
from stomprelay.wire.decoder import SCANNER
from stomprelay.wire.errors import visible
from stomprelay.wire.names import ACK_HEADER, DESTINATION, SUBSCRIBE

SHOWN: Final = 5
LONGEST: Final = 200


class Sizes(NamedTuple):
    """Bytes that went between a client and the relay, and between the relay and the client's brokers."""

    from_client: int
    to_client: int
    from_brokers: int
    to_brokers: int


class SessionInfo(NamedTuple):
    """A session, as it is shown. `login` and `version` are the client's. `brokers` and `broker_versions` have an entry
    for each group of brokers, None for a group without a broker. `age` and `idle` (without heart-beats) are seconds.
    `destinations` are the first `SHOWN` subscriptions, `sent_to` the last destinations of SENDs. `limited` is the limit
    because of which the client waits. `client_id` is that of CONNECT. `subscriptions`: see `subscriptions`.
    """

    session: str
    listener: str
    login: str | None
    client: str
    version: str | None
    brokers: tuple[str | None, ...]
    broker_versions: tuple[str | None, ...]
    age: float
    idle: float | None
    destinations: tuple[str, ...]
    more_destinations: int
    unconfirmed: int
    unacknowledged: int
    client_frames: int
    broker_frames: int
    client_bytes: int
    broker_bytes: int
    to_client_bytes: int
    to_broker_bytes: int
    sent_to: tuple[str, ...]
    limited: str | None = None
    client_id: str | None = None
    subscriptions: tuple["SubscriptionInfo", ...] | None = None


class SubscriptionInfo(NamedTuple):
    """A subscription, as it is shown: its upstream's name, and those of its headers that say what it uses."""

    upstream: str
    headers: tuple[tuple[str, str], ...]


MOST: Final = 100
"""How many subscriptions of a session are shown with their headers."""
_TELLING: Final = frozenset(
    {
        *(DESTINATION, ACK_HEADER),
        *[said.name for each in FEATURES if SUBSCRIBE in each.commands for said in each.said.values()],
        *[each for private in PRIVATE.values() for each, _ in private.headers],
    }
)


def subscriptions(relay: Relay) -> tuple[SubscriptionInfo, ...]:
    """Return the first `MOST` subscriptions of the client of a relay, oldest first, with the headers in `_TELLING`."""
    found = ((link, each) for link in _first(relay.links, _subscribed) for each in link.session.subscriptions)
    return tuple(
        [
            SubscriptionInfo(
                link.upstream.name,
                tuple(
                    [(name.decode(), spell_words(value)) for name, value in each.headers if name in _TELLING]
                ),
            )
            for link, each in islice(found, MOST)
        ]
    )


def open_work(links: list[Link]) -> tuple[int, int]:
    """Return for how many SENDs a client awaits a RECEIPT, and for how many deliveries the client owes an ACK."""
    unconfirmed = sum(map(_unconfirmed, _first(links, _unconfirmed)))
    return unconfirmed, sum([link.session.unacknowledged for link in links])


def destinations(relay: Relay) -> Iterator[str]:
    """Yield all destinations that the client of a relay is subscribed to. Take them all before the next input."""
    for link in _first(relay.links, _subscribed):
        yield from map(spell_words, link.session.subscriptions.destinations)


def subscribed(relay: Relay) -> int:
    """Return how many destinations the client of a relay is subscribed to."""
    return sum(map(_subscribed, _first(relay.links, _subscribed)))


def _first(links: list[Link], measure: Callable[[Link], int]) -> list[Link]:
    """Return for each upstream the link with the largest measure, because frames go to all groups of an upstream."""
    if len(links) == 1:
        return links
    found: dict[str, Link] = {}
    for link in links:
        known = found.get(link.upstream.name)
        if known is None or measure(link) > measure(known):
            found[link.upstream.name] = link
    return list(found.values())


def _subscribed(link: Link) -> int:
    return len(link.session.subscriptions.destinations)


def _unconfirmed(link: Link) -> int:
    return len(link.session.receipts) if link.resender is None else link.resender.unconfirmed.sends


def spell_words(value: bytes) -> str:
    """Return a client's bytes as text, shortened if they are long."""
    text = value[: 4 * LONGEST].decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


QUIET: Final = 1.0
"""A stop is over after so many seconds of reading. Under load reading stops many times a second, which is one event."""

REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
"""The reasons for which events are recorded, by the sum of a connection's reasons."""

Record = Callable[[JournalEvent, str, dict[str, Any]], None]


@dataclass(slots=True, eq=False, repr=False)
class ReadingStop(Timed):
    """The time in which a leg is not read from, as two events of the journal: `HELD` when it `began`, `RELEASED` at its
    end. Call `resumed` and `stopped` alternately. The stop ends `QUIET` seconds after the last `resumed`, or by `end`.
    """

    _side: str
    _record: Record
    _ended: Callable[[], None]
    _since: float | None = None
    _total: float = 0.0

    def began(self, reason: str) -> None:
        """Record `HELD` with this reason: the leg is not read from any more."""
        self.stopped()
        text = f"the {self._side} is not read from"
        self._record(JournalEvent.HELD, text, {"side": self._side, "reason": reason})

    def stopped(self) -> None:
        """Continue this stop: the leg was read from for a moment, and is not read from any more."""
        if self._since is None:
            self._since = self.runtime.seconds()

    def resumed(self) -> None:
        """The leg is read from: the stop ends unless `stopped` is called within `QUIET` seconds."""
        if self._since is not None:
            now = self.runtime.seconds()
            self._total += now - self._since
            self._since = None
            self.set_timer(now + QUIET)

    def woke(self, now: float) -> None:
        """End the stop: the leg was read from for `QUIET` seconds."""
        if self._since is None:
            self.end()

    def end(self) -> None:
        """Record `RELEASED` and call `ended`: the stop is over, or the leg is closed."""
        self.resumed()
        self.stop_timer()
        text = f"the {self._side} is read from again, after {self._total:.3f} s"
        self._record(JournalEvent.RELEASED, text, {"side": self._side, "seconds": round(self._total, 3)})
        self._ended()


if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe

Endpoints = Mapping[Broker, BrokerEndpoint]
"""How to connect to each broker."""

Asks = Callable[["RelayDriver", Claim], None]
"""Finds out who the client of a session is, and gives its driver `Identified`, `Unwanted` or `Unknown`."""

_log: Final = logger()

_NOT_CONNECTED: Final = frozenset({LegState.OPENING, LegState.CONNECTING})
_HOLDABLE: Final = frozenset({LegState.CONNECTING, LegState.CONNECTED})

_NOTHING: Final = (0, 0)
"""No bytes received, none sent."""
_FORM: Final = "{session} from {peer} on {listener}: {event}: {text}"
_END: Final = (
    f"{_FORM}; {{seconds:.1f}} s, from the client {{from_client}}, from brokers {{from_brokers}}{{left}}"
)
_ENDS: Final = frozenset({Event.DISCONNECTED, Event.VANISHED})


class Recording(NamedTuple):
    """The recording of passing frames: `recorder` gets the runs of a chunk; `record` is called after the chunk."""

    recorder: LegRecorder
    record: Callable[[LegRecorder], None]


@implementer(IPushProducer)
@dataclass(slots=True, eq=False, repr=False)
class BrokerOutput:
    """The output to one broker, and the producer of its transport. `full`: too much waits to be written."""

    _driver: "RelayDriver"
    protocol: LegProtocol
    broker: Broker | None = None
    full: bool = False
    _reported: bool = False

    def blocked(self, coupled: bool) -> bool:
        """Return whether the relay has to regard the output as full. In a `coupled` session a newly full output is not
        reported, because the driver stops reading from the client. An output that was reported as full before stays
        reported until it has room.
        """
        return self.full and (self._reported or not coupled)

    @property
    def quiet(self) -> bool:
        """Whether the output is not full, and was not last reported as full."""
        return not (self.full or self._reported)

    @property
    def tally(self) -> BrokerTally:
        """The bytes that were sent to the broker and received from it."""
        return BrokerTally(sent_bytes=self.protocol.bytes_sent, received_bytes=self.protocol.bytes_received)

    def unreported(self, coupled: bool) -> bool:
        """Whether the last report to the relay differs from `blocked`."""
        return self._reported is not self.blocked(coupled)

    def report(self, coupled: bool) -> bool:
        """Return `blocked`, and record that it was reported to the relay."""
        self._reported = self.blocked(coupled)
        return self._reported

    def pauseProducing(self) -> None:
        """Set `full`: too much waits to be written to the broker."""
        self.full = True
        self._driver.output_changed()

    def resumeProducing(self) -> None:
        """Clear `full`: the transport has room again."""
        self.full = False
        self._driver.output_changed()

    def stopProducing(self) -> None:
        """Forget the output: the transport is closed. The relay gets no `Unblocked`."""
        self.full = False
        self._driver.output_ended(self)


@implementer(IPushProducer)
@dataclass(slots=True, eq=False, repr=False)
class RelayDriver(Driver):
    """Drives one relay, which stands for one client. `_on_end` is called when nothing more will happen. `_identify` is
    needed if the listener identifies clients. After `record_to` the session is recorded: the frames of a chunk are a
    block, each `Note` is an event.

    The driver is the producer of its client's transport: while this transport is full, no broker is read from. While a
    broker's transport is full, the client is not read from if client and broker are `coupled`. Otherwise the relay gets
    `Blocked`, in the reactor's next turn, because all effects that the relay returned must be performed before.
    """

    linger: float = field(init=False)
    _relay: Relay
    _endpoints: Endpoints
    _on_end: Callable[["RelayDriver"], None]
    _identify: Asks | None = None
    kept: int = field(init=False)
    _pipes: tuple["Pipe", ...] = ()
    _outputs: tuple[BrokerOutput, ...] = ()
    _client_full: bool = False
    _report_scheduled: bool = False
    _accepted: bool = False
    _left_bytes: tuple[int, int] = _NOTHING
    _client_bytes: tuple[int, int] = _NOTHING
    _recorder: SessionRecorder | None = None
    _stops: dict[Leg, ReadingStop] | None = None
    _peer: object = None
    _first: bytes = b""

    def __post_init__(self) -> None:
        self.linger = self._relay.listener.linger
        self.kept = self.runtime.memory.opened(self)

    @property
    def relay(self) -> Relay:
        """The relay. First the frames that passed without the relay are reported to it, because order matters."""
        if self._pipes:
            self.report_passed()
        return self._relay

    @property
    def over(self) -> bool:
        """Whether nothing more will happen. The relay decides: a session may have no leg between two brokers."""
        return not self.legs and self._relay.over

    def end(self) -> None:
        """Stop the timer and call `ended`: the session is over."""
        Driver.end(self)
        self.runtime.memory.closed(self, self.kept)
        self.kept = 0
        self._on_end(self)

    @property
    def peer(self) -> str:
        """Return the client's address for the log, `host:port`."""
        address = self.address
        return "a client" if address is None else spell_address(address)

    @property
    def address(self) -> object:
        """The client's address; None before it is connected."""
        client = self.runtime.protocols.get(self._relay.client)
        return self._peer if client is None else client.peer

    @property
    def name(self) -> str:
        """Return the session's unique name."""
        return self._relay.name.decode("ascii")

    def info(self) -> SessionInfo:
        """Return the session's present figures."""
        relay = self.relay  # reports what passed, which `_bytes` counts
        now, sizes = self.runtime.seconds(), self._bytes()
        session, links = relay.session, relay.links
        shown = tuple(islice(destinations(relay), SHOWN))
        return SessionInfo(
            self.name,
            relay.listener.name,
            None if relay.login is None else spell_words(relay.login),
            self.peer,
            self.version or None,
            tuple(None if link.broker is None else str(link.broker) for link in links),
            tuple(
                None if link.broker is None else link.connection.leg.dialect.version.decode("ascii")
                for link in links
            ),
            round(now - min(relay.opened_at, now), 3),
            None if session is None else round(now - session.active_at, 3),
            shown,
            subscribed(relay) - len(shown),
            *open_work(links),
            0 if session is None else session.client_frames,
            0 if session is None else session.broker_frames,
            sizes.from_client,
            sizes.from_brokers,
            sizes.to_client,
            sizes.to_brokers,
            () if session is None else tuple(map(spell_words, session.sent_to)),
            None if relay.held_by is None else f"{relay.held_by.limit.value} ({relay.held_by.scope.value})",
            None if session is None or not session.client_id else spell_words(session.client_id),
        )

    def _bytes(self) -> Sizes:
        """Return the bytes between client and relay, and between relay and brokers."""
        client: LegProtocol | None = self.runtime.protocols.get(self._relay.client)
        received, sent = self._left_bytes
        for output in self._outputs:
            received += output.protocol.bytes_received
            sent += output.protocol.bytes_sent
        own = self._client_bytes if client is None else (client.bytes_received, client.bytes_sent)
        return Sizes(*own, received, sent)

    def tallies(self) -> Iterator[tuple[Broker, BrokerTally]]:
        """Yield each broker of the session with a tally. A broker may occur several times. Add its tallies up then."""
        for output in self._outputs:
            if output.broker is not None:
                yield output.broker, output.tally
        for link in self.relay.links:
            if link.broker is not None:
                yield link.broker, link.connection.tally

    def connected(self, protocol: LegProtocol) -> None:
        """Report to the relay that the client or a broker is connected."""
        relay, now = self.relay, self.runtime.seconds()
        if protocol.leg is relay.client:
            self.perform(relay.handle(Opened(), now))
            return
        broker = None
        for link in relay.links:
            broker = broker or link.broker_at(protocol.leg)
        output = BrokerOutput(self, protocol, broker)
        self._outputs = (*self._outputs, output)
        protocol.set_producer(output)
        client = self.runtime.protocols.get(relay.client)
        if client is not None:
            client.set_producer(self)
        host = getattr(self.address, "host", None)
        self.perform(relay.handle(BrokerConnected(protocol.leg, host), now))
        self.check_outputs()

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Give the relay the bytes that came on a leg, and perform the effects. This is the hot path."""
        kept = self.kept
        if self._pipes:
            self.report_passed()
        Driver.perform(self, self._relay.received(protocol.leg, data, self.runtime.seconds()))
        self._count()
        if self._client_full:
            self._hold_brokers()
        if self.kept > kept and self.runtime.memory.short:
            self.runtime.memory.grew(self, protocol)

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform the effects that the relay returned, and count how much is kept of the session now. If the session
        had no leg and is over, call `end`; if it had legs, the close of the last leg calls `end`.
        """
        legs = self.legs
        Driver.perform(self, effects)
        self._count()
        if not legs and self.over:
            self.end()

    def _count(self) -> None:
        if not self.kept:
            return  # the session is over
        kept = SESSION + self._relay.kept
        client = self.runtime.protocols.get(self._relay.client)
        if self._client_full and client is not None:
            kept += client.unwritten
        for output in self._outputs:
            if output.full:
                kept += output.protocol.unwritten
        if kept != self.kept:
            by, self.kept = kept - self.kept, kept
            self.runtime.memory.changed(self, by)

    def protocols(self) -> Iterator[LegProtocol]:
        """Yield the connections of the session that are open."""
        client = self.runtime.protocols.get(self._relay.client)
        if client is not None:
            yield client
        for output in self._outputs:
            yield output.protocol

    def gets_on(self, protocol: LegProtocol) -> bool:
        """Return whether lack of memory alone stops reading from a connection whose frames could pass at once."""
        if protocol.reasons != MEMORY:
            return False
        return protocol.leg is not self._relay.client or self.relay.flows

    def gave_way(self, leg: Leg) -> None:
        """Other sessions had their turn: the relay continues with the leg's waiting work. The leg may have ended."""
        if leg.closed:
            return
        self.handle(GaveWay(leg))
        if self._client_full:
            self._hold_brokers()

    def reading_changed(self, protocol: LegProtocol, on: bool) -> None:
        """Report to the relay whether a leg is read from (`on`). Otherwise the leg would count as silent."""
        for pipe in self._pipes:
            if pipe.source is protocol:
                (pipe.open if on else pipe.shut)()
        self.handle((Resumed if on else Paused)(protocol.leg))
        recorder, leg = self._recorder, protocol.leg
        if recorder is None:
            return
        stop = self._stops.get(leg) if self._stops else None
        if stop is not None:
            (stop.resumed if on else stop.stopped)()
        elif not on and leg.state not in _NOT_CONNECTED and protocol.reasons in REASONS:
            self._begin_stop(recorder, leg, REASONS[protocol.reasons])

    def patient(self, protocol: LegProtocol) -> bool:
        """Return whether the leg is the client's, and is not read from because the client sends too fast."""
        return protocol.leg is self._relay.client and self._relay.held_by is not None

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the relay that a broker cannot be connected to."""
        self.handle(NotConnected(protocol.leg, reason))

    def prevented(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the relay that the connection to a broker could not be tried."""
        self.handle(NotConnected(protocol.leg, reason, tried=False))

    def half_closed(self, protocol: LegProtocol) -> None:
        """Report to the relay that the client sends nothing more."""
        self.handle(HalfClosed())

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the relay that the connection of the client or of a broker ended."""
        self.handle(Lost(protocol.leg, reason))

    def closed(self, protocol: LegProtocol) -> None:
        """Remove a leg that was closed; the bytes that were received from a broker still count in `info`."""
        stop = self._stops.get(protocol.leg) if self._stops else None
        if stop is not None:
            stop.end()
        if self._pipes:
            self._shut(lambda pipe: protocol in (pipe.source, pipe.target))
        if protocol.leg is self._relay.client:
            self._client_bytes = protocol.bytes_received, protocol.bytes_sent
            self._peer = protocol.peer
        else:
            received, sent = self._left_bytes
            self._left_bytes = received + protocol.bytes_received, sent + protocol.bytes_sent
        Driver.closed(self, protocol)

    def woke(self, now: float) -> None:
        """Report to the relay that the time of its last `Wake` has come."""
        self.perform(self.relay.handle(Woke(), now))

    def handle(self, event: Input) -> None:
        """Give the relay this input, and perform the effects. Does nothing after the end of the session."""
        if self.kept:
            self.perform(self.relay.handle(event, self.runtime.seconds()))

    @property
    def watched(self) -> bool:
        """Whether the session is watched for samples."""
        return self._relay.watched

    def failed(self, error: Exception) -> None:
        """End the session: one of its effects failed, so its state is unknown."""
        if not self.relay.over:
            self.perform(self.relay.failed(error))

    # What is recorded

    def record_to(self, records: Records | None) -> None:
        """From now on give records to `records`; None: record nothing. All have equal rules for secrets and bodies."""
        recorder = self._recorder
        if records is (None if recorder is None else recorder.records) or self.over:
            return
        if recorder is None:
            assert records is not None
            self._recorder = recorder = self._begin(records)
            self._record = recorder.record
        elif records is None:
            for stop in tuple((self._stops or {}).values()):
                stop.end()
            recorder.end()
            self._recorder = self._record = None
        else:
            recorder.records = records
        for allowed in self.relay.allowed:
            self._pass(allowed)

    def _begin(self, records: Records) -> SessionRecorder:
        relay, listener = self.relay, self._relay.listener
        recorder = SessionRecorder(records, relay.client, listener.name, self.name, traced=listener.trace)
        for link in relay.links:
            for leg in link.legs:
                broker = None if leg.closed else link.broker_at(leg)
                if broker is not None:
                    recorder.opening(leg, link.upstream.name, broker.uri)
        if relay.session is not None:
            recorder.join(self, relay.login, relay.session.client_frames)
        return recorder

    # What is known of the session, for the records

    @property
    def listener(self) -> str:
        """Return the name of the session's listener."""
        return self._relay.listener.name

    @property
    def host(self) -> str:
        """Return the client's host. If the client's address has no host, return the whole address."""
        client = self.runtime.protocols.get(self._relay.client)
        return self.peer if client is None else getattr(client.peer, "host", self.peer)

    @property
    def version(self) -> str:
        """Return the STOMP version of the client's session; empty before the session begins."""
        session = self._relay.session
        return "" if session is None else session.dialect.version.decode("ascii")

    def _begin_stop(self, recorder: SessionRecorder, leg: Leg, reason: str) -> None:
        def record(event: JournalEvent, text: str, facts: dict[str, Any]) -> None:
            recorder.event(self, event.value, text, facts)

        stops = self._stops
        if stops is None:
            stops = self._stops = {}
        stop = ReadingStop(self.runtime, leg.side.value, record, partial(stops.__delitem__, leg))
        stops[leg] = stop
        stop.began(reason)

    @property
    def _recorders(self) -> tuple[LegRecorder, ...]:
        return () if self._recorder is None else self._recorder.recorders

    def hold(self) -> None:
        """The journal is full: read from no leg whose peer may send much. Legs that connect or disconnect are read."""
        client, protocols = self.relay.client, self.runtime.protocols
        if client not in protocols or client.state not in _HOLDABLE:
            return
        for recorder in self._recorders:
            protocol = protocols.get(recorder.leg)
            if protocol is not None and recorder.leg.state in _HOLDABLE:
                protocol.hold(JOURNAL)

    def release(self) -> None:
        """Read from all legs again, unless there is another reason not to: the journal has room."""
        for recorder in self._recorders:
            protocol = self.runtime.protocols.get(recorder.leg)
            if protocol is not None:
                protocol.release(JOURNAL)

    # Back-pressure

    def pauseProducing(self) -> None:
        """Read from no broker: the client's transport is full."""
        self._client_full = True
        self._hold_brokers()
        self._count()

    def resumeProducing(self) -> None:
        """Read from all brokers again: the client's transport has room."""
        self._client_full = False
        for output in self._outputs:
            output.protocol.release(PRESSURE)
        self._count()

    def stopProducing(self) -> None:
        """Read from all brokers again: the client's transport is closed, and further bytes of brokers are discarded."""
        self.resumeProducing()

    def _hold_brokers(self) -> None:
        """Stop reading from all brokers that have answered CONNECT. While the session ends, do nothing."""
        if self._relay.ending:
            return
        for output in self._outputs:
            protocol = output.protocol
            if protocol.leg.state is not LegState.OPENING:
                protocol.hold(PRESSURE)

    def check_outputs(self) -> None:
        """Stop reading from the client while a coupled broker's output is full. Report other full outputs."""
        coupled = full = unreported = False
        for output in self._outputs:
            if not output.quiet:
                coupled = self.relay.coupled
                full = full or output.full
                unreported = unreported or output.unreported(coupled)
        client = self.runtime.protocols.get(self._relay.client)
        if client is not None:
            if coupled and full:
                client.hold(PRESSURE)
            elif client.reasons:
                client.release(PRESSURE)
        if unreported and not self._report_scheduled:
            self._report_scheduled = True
            self.runtime.reactor.callLater(0, self._report_outputs)

    def output_changed(self) -> None:
        """The output of a broker is full, or has room again."""
        self.check_outputs()
        self._count()

    def output_ended(self, output: BrokerOutput) -> None:
        """Forget the output to a broker whose transport is closed."""
        if output in self._outputs:
            self.report_passed()
            if output.broker is not None:
                output.broker.count(output.tally)
            self._outputs = tuple(each for each in self._outputs if each is not output)
            self.check_outputs()

    def _report_outputs(self) -> None:
        self._report_scheduled = False
        for output in self._outputs:
            coupled = self.relay.coupled
            if output not in self._outputs or not output.unreported(coupled):
                continue
            leg = output.protocol.leg
            if output.report(coupled):
                self.handle(Blocked(leg))
            else:
                self.handle(Unblocked(leg))

    # Effects

    def _resume(self, effect: Resume) -> None:
        """Read from a leg again. While the session ends, read from a broker even if the client's transport is full."""
        Driver._resume(self, effect)
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None and effect.leg is not self._relay.client and self._relay.ending:
            protocol.release(PRESSURE)

    def _note(self, effect: Note) -> None:
        """Write a note to the log, with the names of the session and the client."""
        self.runtime.noted(effect, False)
        accepted = self._accepted and self._relay.session is not None
        if effect.event in _ENDS and "delivering" not in effect.facts and accepted:
            self._log_end(effect, self.runtime.seconds() - self._relay.opened_at)
            return
        if unlogged(effect):
            return
        if effect.event is Event.CONNECTED:
            if not self._accepted:
                self._accepted = True
                login = self._relay.login
                shown = "no login" if login is None else f"login {spell_text(login)}"
                effect = Note(effect.event, f"{shown}, {effect.text}", effect.facts)
            else:
                effect = replace(effect, detail=True)  # another broker of a fan-out is connected
        kind = f"listener {self._relay.listener.name}"
        log_note(effect, _FORM, self.runtime.repeats, kind, **self._names())

    def _names(self) -> dict[str, str]:
        return {
            "session": self.name,
            "peer": self.peer,
            "listener": self._relay.listener.name,
        }

    def _log_end(self, effect: Note, seconds: float) -> None:
        """Write the log line for the end of a session that a broker had accepted."""
        relay = self.relay  # reports what passed, which `_bytes` counts
        sizes, session, links, login = self._bytes(), relay.session, relay.links, relay.login
        assert session is not None  # a broker had accepted it
        unconfirmed, unacknowledged = open_work(links)
        write(
            LogLevel.warn if "possibly_lost" in effect.facts else LogLevel.info,
            _END,
            event=effect.event.value,
            text=visible(effect.text),
            seconds=seconds,
            from_client=f"{counted(session.client_frames, 'frame')}, {counted(sizes.from_client, 'byte')}",
            from_brokers=f"{counted(session.broker_frames, 'frame')}, {counted(sizes.from_brokers, 'byte')}",
            left=f", {unconfirmed} unconfirmed" if unconfirmed else "",
            login=None if login is None else spell_words(login),
            version=self.version,
            brokers=" ".join([str(each) for link in links if (each := link.broker or link.before)]),
            client_frames=session.client_frames,
            broker_frames=session.broker_frames,
            client_bytes=sizes.from_client,
            broker_bytes=sizes.from_brokers,
            to_client_bytes=sizes.to_client,
            to_broker_bytes=sizes.to_brokers,
            unconfirmed=unconfirmed,
            unacknowledged=unacknowledged,
            **self._names(),
        )

    def _open(self, effect: Open) -> None:
        broker = effect.broker
        if self._recorder is not None:
            for upstream in self._relay.listener.upstreams():
                if any(each is broker for each in upstream.brokers):
                    self._recorder.opening(effect.leg, upstream.name, broker.uri)
        self.connect(effect.leg, self._endpoints[broker])
        self.check_outputs()

    def introduced(self, endpoint: IStreamClientEndpoint) -> IStreamClientEndpoint:
        """If this endpoint sends a header of the PROXY protocol, return an endpoint whose header has the client's
        address. Otherwise return the same endpoint.
        """
        if isinstance(endpoint, ProxyHeaderEndpoint):
            client = self.runtime.protocols.get(self._relay.client)
            if client is not None and not self._first:
                self._first = header(client.transport.getPeer(), client.transport.getHost())
            return ProxyHeaderEndpoint(endpoint.endpoint, self._first)
        return endpoint

    def _pass(self, effect: Pass) -> None:
        """Let frames of a leg pass without the relay from now on, or stop this."""
        self._shut(lambda pipe: pipe.source.leg is effect.leg)
        source, target = map(self.runtime.protocols.get, (effect.leg, effect.to))
        if PIPE is None or SCANNER is None or effect.passing is None or source is None or target is None:
            return
        if source.socket() is None:
            return
        recording = keep = None
        if self._recorder is not None:
            recorder = self._recorder.recorder(source.leg)
            keep = recorder.keep
            if keep is None:
                return  # the recorder must examine each frame
            # CONNECT or CONNECTED was received: the leg's context is known. While the journal is full, the leg is held.
            recording = Recording(recorder, self._recorder.records.record_leg)
        leg, reads, session, runtime = source.leg, source.leg.decoder, self._relay.session, self.runtime
        expected = EXPECTED[leg.side, leg.state]
        pipe = PIPE(
            source,
            target,
            SCANNER(reads.limits, reads.dialect, expected, effect.passing.rules, keep).scan,
            effect.passing.takes,
            effect.trails,
            runtime.seconds,
            self.failed,
            recording,
            None if session is None else runtime.tallies.counter,
            session,
        )
        self._pipes = (*self._pipes, pipe)
        if not source.reasons:
            pipe.open()

    def report_passed(self) -> None:
        """Report to the relay the frames that passed without it, and count them."""
        for pipe in self._pipes:
            if pipe.frames:
                source, target = pipe.source, pipe.target
                frames, received, sent, at = pipe.take()
                source.passed(received=received)
                target.passed(sent=sent)
                self._relay.passed(source.leg, target.leg, frames, received, at)

    def _shut(self, ended: Callable[["Pipe"], bool]) -> None:
        """Shut and remove the pipes for which `ended` returns True."""
        if self._pipes:
            self.report_passed()
            for pipe in filter(ended, self._pipes):
                pipe.shut()
            self._pipes = tuple(pipe for pipe in self._pipes if not ended(pipe))

    def _report(self, effect: Report) -> None:
        """Write an error of the relay itself to the log, with its traceback."""
        _log.critical(
            "session {session}: {fault}",
            session=self.name,
            fault=spell_fault(effect.error),
        )

    def _ask(self, effect: Identify) -> None:
        """Find out who the client is, after all effects are performed."""
        assert self._identify is not None
        self.runtime.reactor.callLater(0, self._identify, self, effect.claim)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        **Driver.effects,
        Identify: _ask,
        Note: _note,
        Open: _open,
        Pass: _pass,
        Report: _report,
        Resume: _resume,
        Took: lambda self, effect: self.runtime.tallies.times.record(
            effect.name, effect.label, effect.seconds
        ),
    }
