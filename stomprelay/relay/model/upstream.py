"""Where clients are relayed to: groups of brokers, and how their legs behave."""

from dataclasses import dataclass, field

from stomprelay.relay.model.group import Broker, Group, Policy
from stomprelay.relay.model.health import Checks
from stomprelay.relay.model.profile import AUTO, Profile
from stomprelay.session.handshake import Credentials
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.head import Limits


@dataclass(frozen=True)
class ClientTLS:
    """How a broker's certificate is verified, and our own. Paths; None: the platform's trust, no certificate.

    `name` is what is verified and sent as SNI in place of the address's host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Upstream:
    """Groups of brokers and how their legs behave. Times in seconds.

    A session has a leg on one broker of each group. With several groups (`fanout:`) a SEND goes to all of them, and
    is received when `quorum` of them confirm it; without `fan_out_queues` one to a queue goes to the first group that
    has a broker, alone.

    `confirm`: the relay asks for receipts of its own and keeps what is not confirmed. `resend_buffer`: bytes of
    unconfirmed frames that are kept for a session in each group, and of what a client sends while no broker is
    there, before it is not read any further. `reconnect_rate`: sessions a second that come back to a broker after
    an outage; 0 is without a limit. `rebalance_rate`: sessions a second that move to a broker which came back, 0 is
    none. `drain_timeout`: how long a session that is to move may wait for a quiet moment. `policy`: how a broker of a
    group is chosen; None: as each group has it. `connected`: messages sent to one broker of a group reach consumers at
    another.

    `host`, `credentials`: in place of the client's own. `versions`: what is asked of the broker instead of the
    client's version and those below. `connect_timeout`: for the connection and its CONNECTED together.
    `disconnect_timeout`: how long a DISCONNECT may wait for owed receipts, and then for its answer; how long, in
    all, a session may go on whose client is gone. `keep_alive`: an EOL after this long of silence to a broker
    without heart-beats; 0 is never. `connect_escape`: whether our own credentials are escaped in CONNECT; None: as
    the profile has it. `close_on_error`: an ERROR of the broker ends the session; otherwise the broker decides.

    `proxy_protocol`: a connection begins with the client's address, by the PROXY protocol. `client_address_header`: the
    header of CONNECT that has the client's IP address, and never what the client itself said; None is no header.
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
        """The groups whose policy can have one session send to a broker and another receive from one that does not get
        it.
        """
        if self.connected:
            return ()
        return tuple(each for each in self.groups if len(each.brokers) > 1 and not each.together)

    @property
    def movable(self) -> bool:
        """Whether a session survives its broker."""
        return self.groups[0].reconnect is not None
