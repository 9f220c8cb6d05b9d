"""A listener's settings, each by what it does."""

import dataclasses

import pytest

from stomprelay.relay.model.listener import Listener, LossPolicy, ServerTLS
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits
from tests.playbook import SAY_HELLO, Playbook, joined, listener, upstream


def test_the_defaults() -> None:
    """Without settings all versions are spoken, losses replaced, and octets pass."""
    plain = Listener("public", "tcp:61613", upstream())
    assert plain.versions == {b"1.0", b"1.1", b"1.2"}
    assert plain.loss is LossPolicy.REPLACE
    assert plain.require_utf8 is False
    assert plain.limits == Limits(headers=128, header_line=10240, body=16 * 1024 * 1024)
    assert plain.tls is None


def test_it_cannot_change() -> None:
    """Sessions share it."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        listener().name = "other"  # type: ignore[misc]


def test_tls_asks_for_no_certificate_by_itself() -> None:
    """Clients need one only where somebody said so."""
    tls = ServerTLS("chain.pem", "key.pem")
    assert (tls.client_ca, tls.require_client_certificate) == (None, False)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (LossPolicy("replace"), b"foo:a b\n"),
        (LossPolicy("percent"), b"foo:a%0Ab\n"),
        (LossPolicy("reject"), None),
    ],
    ids=str,
)
def test_loss_policies_have_names(loss: LossPolicy, told: bytes | None) -> None:
    """Each is spelled in the configuration by its value, and does what it says, toward brokers and toward clients."""
    with joined(b"1.2", b"1.0", loss=loss) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\n\n\0")
        if told is None:
            play.client_gets_error(b"a header cannot be said in the other version")
        else:
            play.broker_gets(b"SEND\ndestination:/queue/a\n" + told + b"\n\0")
    with joined(b"1.0", b"1.2", loss=loss) as play:
        play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:1\nfoo:a\\nb\n\n\0")
        if told is None:
            assert b"a header cannot be said in the other version" in play.client_reads()
            play.client_is_closed()
        else:
            play.client_gets(b"MESSAGE\nsubscription:0\nmessage-id:1\n" + told + b"\n\0")


def test_a_refused_loss_toward_a_client_is_not_laid_to_the_broker() -> None:
    """The broker's frame is right; what is wrong is that it cannot be said to this client."""
    with joined(b"1.0", b"1.2", loss=LossPolicy.REJECT) as play:
        play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:1\nfoo:a\\nb\n\n\0")
        play.client_gets_error(b"a header cannot be said in the other version")


def test_an_octet_that_can_be_said_is_left_alone() -> None:
    """In a value that has to be settled, only what the version cannot say is touched: 1.0 has a raw CR."""
    with joined(b"1.2", b"1.0", loss=LossPolicy.PERCENT) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\rb\\nc\n\n\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\nfoo:a\rb%0Ac\n\n\0")


def test_linger_is_how_long_a_confirmed_goodbye_may_last() -> None:
    """After the receipt of DISCONNECT neither side has to be waited for longer."""
    with joined(b"1.2", b"1.2", linger=7.0) as play:
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_reads()
        play.broker_says(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.client_reads()
        play.time_passes(6.9)
        play.both_stay()
        play.time_passes(0.2)
        play.client_is_closed()


def test_heart_beats_are_what_connected_says() -> None:
    """A listener's own terms are shown to clients that speak of heart-beats, and only to those."""
    with Playbook(listener(heart_beat=Terms(12000, 34000))) as play:
        play.client_says(SAY_HELLO[b"1.2"].replace(b"\n\n", b"\nheart-beat:1,1\n\n"))
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(b"CONNECTED\nversion:1.2\nsession:s\n\n\0")
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s\nheart-beat:12000,34000\n\n\0")
