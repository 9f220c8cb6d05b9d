"""Where clients are relayed to: brokers under one policy."""

from dataclasses import dataclass, field

from stomprelay.relay.profile import AUTO, Profile
from stomprelay.session.handshake import Credentials
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits


@dataclass(frozen=True)
class ClientTLS:
    """How a broker's certificate is verified, and our own. Paths; None: the platform's trust, no certificate.

    `name` is what is verified and sent as SNI in place of the address's host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    name: str | None = None


class Broker:
    """One address, and what was learnt of it.

    `endpoint` is a Twisted client endpoint string, or `memory:` for the embedded broker; `tls` is set where the
    address asks for TLS. `versions` is what it said it speaks when it refused ours; `profile` what it turned out
    to be.
    """

    __slots__ = ("endpoint", "host", "profile", "tls", "uri", "versions")

    def __init__(self, uri: str, endpoint: str, host: str = "", *, tls: bool = False) -> None:
        self.uri = uri
        self.endpoint = endpoint
        self.host = host
        self.tls = tls
        self.versions: frozenset[bytes] | None = None
        self.profile: Profile | None = None

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True)
class Upstream:
    """A broker and how its legs behave. Times in seconds.

    `host`, `credentials`: in place of the client's own. `versions`: what is asked of the broker instead of the
    client's version and those below. `connect_timeout`: for the connection and its CONNECTED together.
    `disconnect_timeout`: how long a DISCONNECT may wait for owed receipts, and then for its answer.
    `keep_alive`: an EOL after this long of silence to a broker without heart-beats; 0 is never.
    `connect_escape`: whether our own credentials are escaped in CONNECT; None: as the profile says.
    `close_on_error`: an ERROR of the broker ends the session; otherwise the broker decides.
    """

    name: str
    broker: Broker
    host: bytes | None = None
    credentials: Credentials | None = None
    versions: frozenset[bytes] | None = None
    profile: Profile = AUTO
    heart_beat: Terms = Terms(10000, 10000)
    limits: Limits = Limits(headers=4096, header_line=1024 * 1024, body=256 * 1024 * 1024)
    connect_timeout: float = 10.0
    disconnect_timeout: float = 5.0
    keep_alive: float = 20.0
    connect_escape: bool | None = None
    close_on_error: bool = False
    tls: ClientTLS = field(default=ClientTLS())
