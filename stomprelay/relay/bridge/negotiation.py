"""Which dialects meet: what is asked of a broker, and the bridges once it has answered."""

from functools import cache
from typing import NamedTuple

from stomprelay.relay.bridge.bridge import Bridge, Parting, ToClient
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import AUTO, GENERIC, PROFILES, Profile, detect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Accord, Credentials, Offer, OwnHeader
from stomprelay.wire.dialect import DIALECTS, V1_1, Dialect, up_to


class Bridges(NamedTuple):
    """The two bridges of a session, and the dialect in which its broker's leg is read."""

    to_broker: Bridge
    to_client: Bridge
    broker: Dialect


@cache
def bridges_between(
    client: bytes,
    broker: bytes,
    profile: str,
    loss: LossPolicy,
    *,
    tracked: bool = False,
    parting: bool = False,
) -> Bridges:
    """Return the bridges between two versions. `tracked`: account is kept of all deliveries. `parting`: see `Parting`.
    Between equal versions nothing is translated.
    """
    product = PROFILES[profile]
    ours = DIALECTS[client]
    spoken = product.dialects[broker]
    equal = client == broker
    to_broker = Parting if parting else Bridge
    target, facing = (ours, spoken) if equal else (spoken, None)
    return Bridges(
        to_broker(ours, target, loss, selectors=product.selectors, tracked=tracked, facing=facing),
        ToClient(GENERIC.dialects[client] if equal else spoken, ours, loss, tracked=tracked),
        spoken,
    )


def asked(upstream: Upstream, broker: Broker, client: Dialect) -> frozenset[bytes]:
    """Return the versions to ask a broker for: the client's and lower ones, or those that it is known to have."""
    if upstream.versions is not None:
        return upstream.versions
    wanted = up_to(client)
    known = broker.versions
    return wanted if known is None else (wanted & known or known)


def profile(upstream: Upstream, broker: Broker, accord: Accord, offer: Offer) -> Profile:
    """Return the broker's profile: the configured one, or by CONNECTED, unless its `session` is the client's."""
    session = b"" if offer.holds(accord.session) else accord.session
    found = detect(accord.server, session) if upstream.profile is AUTO else upstream.profile
    broker.profile = found
    return found


def credentials(upstream: Upstream, broker: Broker, client: Credentials | None = None) -> Credentials | None:
    """Return the relay's credentials for this `client`, or the upstream's, escaped. None: the client's are used."""
    own = client or upstream.credentials
    if own is None or not _escapes(upstream, broker):
        return own
    return Credentials(V1_1.encode(own.login), own.passcode and V1_1.encode(own.passcode))


def client_address(upstream: Upstream, broker: Broker, address: str | None) -> OwnHeader | None:
    """Return CONNECT's header with the client's IP address, escaped; None where it is unknown or not told."""
    name = upstream.client_address_header
    if name is None:
        return None
    if address is None:
        return OwnHeader(name, None)
    value = address.partition("%")[0].encode("ascii")
    return OwnHeader(name, V1_1.encode(value) if _escapes(upstream, broker) else value)


def _escapes(upstream: Upstream, broker: Broker) -> bool:
    """Whether a broker unescapes the values of CONNECT, as far as that is known."""
    if upstream.connect_escape is not None:
        return upstream.connect_escape
    return (broker.profile or (GENERIC if upstream.profile is AUTO else upstream.profile)).connect_escape
