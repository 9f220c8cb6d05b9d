"""The brokers for clients: groups of brokers, and how the legs to them behave."""

from dataclasses import dataclass, field

from stomprelay.relay.model.group import Broker, Checks, Group, Policy
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.profile import AUTO, Profile
from stomprelay.session.handshake import Credentials
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits


@dataclass(frozen=True)
class ClientTLS:
    """How a broker's certificate is verified, and the relay's own certificate. All but `name` are paths. `ca` None: the
    platform's trust is used. `certificate` None: the relay has none. `name` is verified, and sent as SNI, in place of
    the host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Upstream:
    """Groups of brokers, and how the legs to them behave. A session has a leg to one broker of each group. Times are in
    seconds.

    host                   replaces the client's `host` in CONNECT
    credentials            replace the client's login and passcode
    versions               the versions to ask brokers for; None: the client's and lower ones
    heart_beat             the heart-beats that brokers are offered
    connect_timeout        how long a broker may take for its connection and CONNECTED together
    disconnect_timeout     how long the receipts owed before DISCONNECT may take, and then the answer to DISCONNECT;
                           also how long a session may go on in all after its client is gone
    keep_alive             seconds of silence after which a broker without heart-beats is sent an EOL; 0: never
    connect_escape         whether our own values in CONNECT are escaped; None: as the profile says
    close_on_error         whether an ERROR of a broker ends the session
    proxy_protocol         whether each connection begins with the client's address
    client_address_header  the header for the client's address in CONNECT; None: no such header
    quorum                 how many groups must confirm a SEND; with several groups (`fanout:`) all get it
    fan_out_queues         whether all groups, and not only one, get a SEND to a queue
    confirm                whether the relay asks for receipts of its own
    confirm_timeout        how long a broker may take to confirm a SEND while it reads later frames; 0: any time
    resend_buffer          how many bytes are kept for each group of a session before its client is not read from
    reconnect_rate         how many sessions a second return after an outage; 0: any number
    rebalance_rate         how many sessions a second move to a broker that is back; 0: none
    drain_timeout          how long a session that is to move waits for a quiet moment
    policy                 how a broker is chosen; None: each group has its own policy
    map                    how clients' frames are said to the brokers, by their product
    connected              whether a message at one broker of a group reaches consumers at the others
    """

    name: str
    groups: tuple[Group, ...]
    host: bytes | None = None
    credentials: Credentials | None = None
    versions: frozenset[bytes] | None = None
    profile: Profile = AUTO
    # ActiveMQ sends a beat only at every second look at its clock, so two intervals and a little more may pass.
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
    confirm_timeout: float = 60.0
    resend_buffer: int = 1024 * 1024
    reconnect_rate: float = 2000.0
    rebalance_rate: float = 10.0
    drain_timeout: float = 5.0
    policy: Policy | None = None
    connected: bool = False
    map: MapSettings = field(default=MapSettings())
    checks: Checks = field(default=Checks())

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers of all groups."""
        return tuple([broker for group in self.groups for broker in group.brokers])

    @property
    def parts(self) -> tuple[Group, ...]:
        """The groups whose policy may put sender and receiver on brokers that do not share messages."""
        if self.connected:
            return ()
        return tuple(each for each in self.groups if len(each.brokers) > 1 and not each.together)

    @property
    def movable(self) -> bool:
        """Whether a session can continue after the loss of its broker."""
        return self.groups[0].reconnect is not None
