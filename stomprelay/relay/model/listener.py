"""Where clients come in, and which upstream serves which destination."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate
from functools import cached_property
from typing import Final

from stomprelay.relay.model.rates import NO_RATES, RateLimits
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Limits


class Match(Enum):
    """How a route's pattern is meant."""

    EXACT = "destination"
    """The destination itself."""
    PREFIX = "prefix"
    """What the destination begins with."""
    GLOB = "glob"
    """`*` for any bytes, `?` for one character, `[...]` for one out of a set; all of the destination."""


@dataclass(frozen=True)
class Route:
    """Destinations that match go to `upstream`. Of several routes the first that matches counts."""

    match: Match
    pattern: str
    upstream: Upstream
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
        """Whether a destination goes this way."""
        return bool(self._matches(destination.decode("utf-8", "surrogateescape")))


class LossPolicy(Enum):
    """What becomes of a header value that the other leg's version cannot express."""

    REPLACE = "replace"
    """Each byte that cannot be expressed becomes a blank; a header whose name cannot be expressed is left out."""
    PERCENT = "percent"
    """Each byte that cannot be expressed becomes `%0A` or `%0D`."""
    REJECT = "reject"
    """The frame is refused with an ERROR."""

    __hash__ = object.__hash__  # Enum's own is written in Python


@dataclass(frozen=True)
class ServerTLS:
    """A listener's TLS. Paths to PEM files; `certificate` holds the chain, leaf first. `client_ca`: who signs clients'
    certificates. `require_client_certificate` refuses clients without one.
    """

    certificate: str
    key: str
    client_ca: str | None = None
    require_client_certificate: bool = False


ANY_ORIGIN: Final = "*"
"""In place of an origin: all of them."""


@dataclass(frozen=True)
class Web:
    """How STOMP over WebSocket is spoken on a listener, beside plain STOMP.

    `origins`: sites of which browsers may come; a client that names none may, too. `ping_interval`: seconds of silence
    before a ping, and after it until the client counts as gone; 0: never. `message`: bytes in a message. `compression`:
    allowed both ways.
    """

    path: str = "/ws"
    origins: tuple[str, ...] = ()
    ping_interval: float = 30.0
    message: int = 32 * 1024 * 1024
    compression: bool = False


@dataclass(frozen=True)
class Listener:
    """One listening endpoint (a Twisted server endpoint string) and how its clients are treated.

    `upstream` answers CONNECT and has every destination without one of `routes`. `connect_timeout`: seconds for
    CONNECT. `before_connect`: bytes before it is complete. `unacknowledged`: owed ACKs before the broker is not read
    from. `transactions`, `subscriptions`: how many a client may have open. `kept`: bytes kept of a client, see
    `budget`. `linger`: seconds to read an ERROR. `clients`, `clients_per_address`, `clients_per_user`: how many at a
    time; None: any number. `require_utf8`: refuse other heads. `trace`: see `Tracer`. `web`: WebSocket; None: not
    at all. `auth`: which `[auth.NAME]` identifies clients; None: none. `renew`: where clients show new tokens. `rates`:
    how often clients come, and how much they send. `rules`: what they may do; None: what brokers allow.
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
        """Where its clients may be taken: its own upstream, then those of its routes, each once."""
        return tuple(
            {id(each): each for each in (self.upstream, *(route.upstream for route in self.routes))}.values()
        )

    @cached_property
    def budget(self) -> int:
        """How many bytes may be kept of one client. Without `kept`: four bodies and a resend buffer a group."""
        if self.kept is not None:
            return self.kept
        groups = [each.resend_buffer for each in self.upstreams() for _ in each.groups]
        return sum(4 * (self.limits.body + buffer) for buffer in groups)

    def routed(self, destination: bytes) -> Upstream:
        """The upstream for a destination."""
        for route in self.routes:
            if route.matches(destination):
                return route.upstream
        return self.upstream
