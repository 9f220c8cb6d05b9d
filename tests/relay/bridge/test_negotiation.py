"""Which dialects meet: what is asked of a broker, and what its answer means."""

from dataclasses import replace

import pytest

from stomprelay.relay.bridge.negotiation import asked, bridges_between, client_address, profile
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, AUTO, GENERIC, PROFILES, RABBITMQ, Profile
from stomprelay.session.handshake import Accord, Header, Offer
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect
from tests.playbook import PAIRS, URI, upstream

ASKED = [
    # the client's version, `versions` of the upstream, what the broker is known to speak, what is asked
    (V1_0, None, None, {b"1.0"}),
    (V1_1, None, None, {b"1.0", b"1.1"}),
    (V1_2, None, None, {b"1.0", b"1.1", b"1.2"}),
    (V1_2, {b"1.1"}, None, {b"1.1"}),
    (V1_0, {b"1.1", b"1.2"}, {b"1.0"}, {b"1.1", b"1.2"}),
    (V1_2, None, {b"1.0"}, {b"1.0"}),
    (V1_2, None, {b"1.0", b"1.1"}, {b"1.0", b"1.1"}),
    (V1_1, None, {b"1.1", b"1.2"}, {b"1.1"}),
    (V1_0, None, {b"1.1", b"1.2"}, {b"1.1", b"1.2"}),
    (V1_1, None, {b"1.2"}, {b"1.2"}),
]


@pytest.mark.parametrize(("client", "settings", "known", "expected"), ASKED)
def test_what_is_asked(
    client: Dialect, settings: set[bytes] | None, known: set[bytes] | None, expected: set[bytes]
) -> None:
    """The client's version and those below, or what the broker is known to speak; a setting overrides all."""
    over = upstream(versions=None if settings is None else frozenset(settings))
    over.brokers[0].versions = None if known is None else frozenset(known)
    assert asked(over, over.brokers[0], client) == expected


@pytest.mark.parametrize("product", list(PROFILES), ids=str)
@pytest.mark.parametrize(("client", "broker"), PAIRS, ids=lambda version: version.decode())
def test_bridges_between_versions(client: bytes, broker: bytes, product: str) -> None:
    """Equal versions face each other as the specification has them; unequal ones face the product's way."""
    bridges = bridges_between(client, broker, product, LossPolicy.REPLACE)
    spoken = PROFILES[product].dialects[broker]
    assert bridges.broker is spoken
    assert bridges.to_broker.source is bridges.to_client.target is DIALECTS[client]
    assert bridges.to_broker.target is (DIALECTS[client] if client == broker else spoken)
    assert bridges.to_client.source == replace(bridges.to_broker.target, strict=False)


OFFER = Offer([(b"client-id", b"session-VBniRDNLTsX29_fZdQW2Xg")], frozenset(), None)


def accord(server: bytes = b"", session: bytes = b"") -> Accord:
    """A CONNECTED with these headers alone."""
    return Accord([], V1_2, Terms(), server, session)


@pytest.mark.parametrize("configured", [GENERIC, RABBITMQ, ACTIVEMQ, ARTEMIS], ids=lambda each: each.name)
def test_a_configured_profile_wins(configured: Profile) -> None:
    """What a broker tells of itself counts only where nothing is configured."""
    over = upstream(profile=configured)
    assert profile(over, over.brokers[0], accord(b"RabbitMQ/3.10.8"), OFFER) is configured
    assert over.brokers[0].profile is configured


def test_a_client_cannot_name_the_product() -> None:
    """Without `server` RabbitMQ is known by its form of `session`; ActiveMQ's is what the client called itself."""
    over = upstream()
    (broker,) = over.brokers
    assert profile(over, broker, accord(session=b"session-VBniRDNLTsX29_fZdQW2Xg"), OFFER) is GENERIC
    assert profile(over, broker, accord(session=b"session-1Ig5A2klR5uA93NKSiu1Jw"), OFFER) is RABBITMQ


# the upstream's profile and `connect_escape`, what the broker is known to be, how the passcode is spelled
SPELLINGS = [
    (AUTO, None, None, b"p:\\"),
    (AUTO, None, RABBITMQ, b"p\\c\\\\"),
    (AUTO, None, ACTIVEMQ, b"p\\c\\\\"),
    (AUTO, None, ARTEMIS, b"p:\\"),
    (AUTO, True, None, b"p\\c\\\\"),
    (AUTO, False, RABBITMQ, b"p:\\"),
    (RABBITMQ, None, None, b"p\\c\\\\"),
    (GENERIC, None, None, b"p:\\"),
    (GENERIC, True, None, b"p\\c\\\\"),
]


@pytest.mark.parametrize(("configured", "escape", "known", "spelled"), SPELLINGS)
def test_the_clients_address(
    configured: Profile, escape: bool | None, known: Profile | None, spelled: bytes
) -> None:
    """It is escaped as our credentials are, and has no zone, which is of the relay's host alone."""
    over = upstream(profile=configured, connect_escape=escape, client_address_header=b"x-client")
    over.brokers[0].profile = known
    value = b"fe80\\c\\c1" if b"\\c" in spelled else b"fe80::1"
    assert client_address(over, over.brokers[0], "fe80::1%eth0") == Header(b"x-client", value)


def test_a_client_without_an_address() -> None:
    """The header is still ours: nothing is told of a client on no network, or where nothing is to be told."""
    own = upstream(client_address_header=b"x-client")
    assert client_address(own, own.brokers[0], None) == Header(b"x-client", None)
    assert client_address(upstream(), Broker(URI, ""), "192.0.2.7") is None


@pytest.mark.parametrize(("client", "broker"), PAIRS, ids=lambda version: version.decode())
def test_bridges_that_keep_account(client: bytes, broker: bytes) -> None:
    """For a session that may move ACKs, NACKs and MESSAGEs are looked at in all pairs; else only where names differ."""
    tracked = bridges_between(client, broker, "generic", LossPolicy.REPLACE, tracked=True)
    plain = bridges_between(client, broker, "generic", LossPolicy.REPLACE)
    assert tracked.to_broker.tracked
    assert tracked.to_client.tracked
    assert not plain.to_broker.tracked
    assert b"ACK" in tracked.to_broker.steps
    assert b"MESSAGE" in tracked.to_client.steps
    assert (b"ACK" in plain.to_broker.steps) is (client != broker)
    assert (b"MESSAGE" in plain.to_client.steps) is (client != broker)
    assert tracked.broker is plain.broker
