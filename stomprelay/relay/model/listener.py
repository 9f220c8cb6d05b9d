"""Listeners, and which upstream serves which destination."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate
from functools import cached_property
from typing import Final

from stomprelay.relay.model.move import Move
from stomprelay.relay.model.rates import NO_RATES, RateLimits
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms
from stomprelay.wire.dialect import DIALECTS, V1_2
from stomprelay.wire.frame import Limits


class Match(Enum):
    """How a route's pattern is compared with a destination."""

    EXACT = "destination"
    """The pattern is the whole destination."""
    PREFIX = "prefix"
    """The destination begins with the pattern."""
    GLOB = "glob"
    """`*` is any bytes, `?` one character, `[...]` one character of a set. The whole destination must match."""


@dataclass(frozen=True)
class Route:
    """Matching destinations go to `upstream`; with a `move`, as far as its phase says. If several routes match, the
    first one decides. Routes with a move and those without one are two lists in this respect.
    """

    match: Match
    pattern: str
    upstream: Upstream
    move: Move | None = None
    _matches: Callable[[str], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact, prefix = self.pattern.__eq__, self.pattern
        found: dict[Match, Callable[[str], object]] = {
            Match.EXACT: exact,
            Match.PREFIX: lambda destination: destination.startswith(prefix),
            Match.GLOB: re.compile(translate(self.pattern)).match,
        }
        object.__setattr__(self, "_matches", found[self.match])

    def matches(self, destination: bytes) -> bool:
        """Whether a destination matches this route."""
        return bool(self._matches(destination.decode("utf-8", "surrogateescape")))


class LossPolicy(Enum):
    """What happens to a header that the other leg's version cannot express."""

    REPLACE = "replace"
    """Each byte that cannot be expressed becomes a blank; a header whose name cannot be expressed is left out."""
    PERCENT = "percent"
    """Each byte that cannot be expressed becomes `%0A` or `%0D`."""
    REJECT = "reject"
    """The frame is refused with an ERROR."""

    __hash__ = object.__hash__  # Enum's own is written in Python


@dataclass(frozen=True)
class ServerTLS:
    """TLS of a listener. The paths are those of PEM files. `certificate` holds the chain, leaf first. `client_ca`: the
    authority of clients' certificates. `require_client_certificate` refuses clients without a certificate.
    """

    certificate: str
    key: str
    client_ca: str | None = None
    require_client_certificate: bool = False


ANY_ORIGIN: Final = "*"
"""Stands for all origins."""


@dataclass(frozen=True)
class Web:
    """How a listener speaks STOMP over WebSocket, in addition to plain STOMP.

    `origins`: the web sites from which browsers may connect. A client that names no origin may always connect.
    `ping_interval`: seconds of silence before a ping; after as many more seconds the client counts as gone; 0: no
    pings. `message`: the most bytes in a message. `compression`: allowed in both directions.
    """

    path: str = "/ws"
    origins: tuple[str, ...] = ()
    ping_interval: float = 30.0
    message: int = 32 * 1024 * 1024
    compression: bool = False


@dataclass(frozen=True)
class Listener:
    """One listening endpoint (a Twisted server endpoint string), and how its clients are treated. Times are in seconds.

    upstream              answers CONNECT, and serves every destination that no route matches
    versions              the versions that clients may speak
    heart_beat            the heart-beats that clients are offered
    connect_timeout       how long a client may take for CONNECT
    before_connect        how many bytes a client may send until CONNECT is complete
    unacknowledged        how many ACKs a client may owe before its broker is not read from
    transactions          how many transactions a client may have open
    subscriptions         how many subscriptions a client may have
    kept                  how many bytes are kept of a client; None: see `budget`
    linger                how long a client has to read its ERROR
    loss                  what happens to values that the other version cannot express
    require_utf8          whether clients whose heads are not UTF-8 are refused
    trace                 whether each SEND gets a header by which the journal knows its MESSAGEs
    web                   how WebSocket is spoken; None: the listener speaks no WebSocket
    auth                  the `[auth.NAME]` that identifies clients; None: clients are not identified
    renew                 the destination to which clients send new tokens; None: clients cannot send any
    clients               how many clients there may be; None: any number
    clients_per_address   how many clients one address may have; None: any number
    clients_per_user      how many clients one user may have; None: any number
    rates                 how often clients may connect, and how much they may send
    rules                 what clients may do; None: everything that brokers allow
    """

    name: str
    endpoint: str
    upstream: Upstream
    routes: tuple[Route, ...] = ()
    versions: frozenset[bytes] = frozenset(DIALECTS)
    heart_beat: Terms = Terms(1000, 1000)
    limits: Limits = Limits()
    connect_timeout: float = 10.0
    before_connect: int = 65536
    unacknowledged: int = 65536
    transactions: int = 1024
    subscriptions: int = 65536
    kept: int | None = None
    linger: float = 2.0
    loss: LossPolicy = LossPolicy.REPLACE
    require_utf8: bool = False
    trace: bool = False
    tls: ServerTLS | None = None
    web: Web | None = None
    auth: str | None = None
    renew: bytes | None = None
    clients: int | None = None
    clients_per_address: int | None = None
    clients_per_user: int | None = None
    rates: RateLimits = NO_RATES
    rules: AccessRules | None = None

    def upstreams(self) -> tuple[Upstream, ...]:
        """Return the upstreams that the listener's clients may use: its own, then those of its routes, each once."""
        return tuple(
            {id(each): each for each in (self.upstream, *(route.upstream for route in self.routes))}.values()
        )

    @cached_property
    def budget(self) -> int:
        """How many bytes may be kept of one client: `kept`, or four bodies and four resend buffers for each group."""
        if self.kept is not None:
            return self.kept
        groups = [each.resend_buffer for each in self.upstreams() for _ in each.groups]
        return sum(4 * (self.limits.body + buffer) for buffer in groups)

    def routed(self, destination: bytes) -> Upstream:
        """Return the upstream to which SENDs to a destination go now."""
        route = self.moving(destination)
        move = None if route is None else route.move
        return route.upstream if route and move and move.phase.sends_new else self.unmoved(destination)

    def unmoved(self, destination: bytes) -> Upstream:
        """Return the upstream for a destination, as if there were no moves."""
        for route in self.routes:
            if route.move is None and route.matches(destination):
                return route.upstream
        return self.upstream

    def moving(self, destination: bytes) -> Route | None:
        """Return the route with the move that a destination belongs to; None if there is none."""
        for route in self.routes:
            if route.move is not None and route.matches(destination):
                return route
        return None

    @classmethod
    def own(cls, name: str, upstream: Upstream) -> "Listener":
        """Return the listener of a client in this process, which speaks STOMP 1.2 without heart-beats."""
        return cls(
            name,
            "",
            upstream,
            versions=frozenset({V1_2.version}),
            heart_beat=Terms(0, 0),
            limits=upstream.limits,
            unacknowledged=1 << 20,  # more deliveries than brokers make before the first ACK
        )

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves that the listener's clients follow."""
        return tuple([each.move for each in self.routes if each.move is not None])
