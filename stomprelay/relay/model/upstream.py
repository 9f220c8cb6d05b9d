"""Where clients are relayed to: groups of brokers, and how their legs behave."""

from dataclasses import dataclass, field

from stomprelay.relay.model.group import Broker, Checks, Group, Policy
from stomprelay.relay.model.profile import AUTO, Profile
from stomprelay.session.handshake import Credentials
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.frame import Limits


@dataclass(frozen=True)
class ClientTLS:
    """How a broker's certificate is verified, and our own. Paths; None: the platform's trust, no certificate. `name` is
    verified and sent as SNI in place of the host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Upstream:
    """Groups of brokers and how their legs behave. Times in seconds.

    A session has a leg on one broker of each group. With several groups (`fanout:`) a SEND goes to all, and is received
    when `quorum` of them confirm it; without `fan_out_queues` one to a queue goes to one group alone.

    `confirm`: the relay asks for receipts of its own. `resend_buffer`: bytes kept for a session in each group before
    the client is not read from. `reconnect_rate`: sessions a second that return after an outage; 0: any.
    `rebalance_rate`: sessions a second that move to a returned broker; 0: none. `drain_timeout`: the wait for a quiet
    moment. `policy`: the choice of a broker; None: the group's. `connected`: messages reach consumers at all brokers of
    a group.

    `host`, `credentials`: in place of the client's. `versions`: to ask the broker for. `connect_timeout`: for
    connection and CONNECTED. `disconnect_timeout`: for owed receipts, then for DISCONNECT's answer; for a gone client's
    session in all. `keep_alive`: silence before an EOL to a broker without beats; 0: never. `connect_escape`: escape
    our credentials; None: the profile's way. `close_on_error`: a broker's ERROR ends the session. `proxy_protocol`:
    begin with the client's address. `client_address_header`: CONNECT's header with it; None: none.
    """

    name: str
    groups: tuple[Group, ...]
    host: bytes | None = None
    credentials: Credentials | None = None
    versions: frozenset[bytes] | None = None
    profile: Profile = AUTO
    # ActiveMQ beats at every second look at its clock: two intervals may pass, and a little more.
    heart_beat: Terms = Terms(10000, 10000, tolerance=2.5)
    limits: Limits = Limits(headers=4096, header_line=1024 * 1024, body=256 * 1024 * 1024)
    connect_timeout: float = 10.0
    disconnect_timeout: float = 5.0
    keep_alive: float = 20.0
    connect_escape: bool | None = None
    close_on_error: bool = False
    proxy_protocol: bool = False
    client_address_header: bytes | None = None
    tls: ClientTLS = field(default=ClientTLS())
    quorum: int = 1
    fan_out_queues: bool = True
    confirm: bool = False
    resend_buffer: int = 1024 * 1024
    reconnect_rate: float = 2000.0
    rebalance_rate: float = 10.0
    drain_timeout: float = 5.0
    policy: Policy | None = None
    connected: bool = False
    checks: Checks = field(default=Checks())

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers of all groups."""
        return tuple(broker for group in self.groups for broker in group.brokers)

    @property
    def parts(self) -> tuple[Group, ...]:
        """The groups whose policy can have sender and receiver on brokers that do not share messages."""
        if self.connected:
            return ()
        return tuple(each for each in self.groups if len(each.brokers) > 1 and not each.together)

    @property
    def movable(self) -> bool:
        """Whether a session survives its broker."""
        return self.groups[0].reconnect is not None
