"""Which dialects meet: what is asked of a broker, and what its answer means."""

import pytest

from stomprelay.relay.bridge import client_address, profile
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, AUTO, GENERIC, RABBITMQ, Profile
from stomprelay.session.handshake import Accord, Offer, OwnHeader
from stomprelay.session.leg import Terms
from stomprelay.wire.dialect import V1_2
from tests.playbook import upstream

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
    assert client_address(over, over.brokers[0], b"x-client", "fe80::1%eth0") == OwnHeader(b"x-client", value)


def test_a_client_without_an_address() -> None:
    """The header is still ours: nothing is told of a client on no network, or where nothing is to be told."""
    own = upstream(client_address_header=b"x-client")
    assert client_address(own, own.brokers[0], b"x-client", None) == OwnHeader(b"x-client", None)
