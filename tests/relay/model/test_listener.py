"""A listener's settings, each by what it does; which destinations a route takes."""

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import LossPolicy, Match, Route
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms
from tests.playbook import SAY_HELLO, Playbook, joined, listener


def test_a_refused_loss_toward_a_client_is_not_laid_to_the_broker() -> None:
    """The broker's frame is right; what is wrong is that it cannot be said to this client."""
    with joined(b"1.0", b"1.2", loss=LossPolicy.REJECT) as play:
        play.broker_says(b"MESSAGE\nsubscription:0\nmessage-id:1\nfoo:a\\nb\n\n\0")
        play.client_gets_error(b"a header cannot be said in the other version")


def test_heart_beats_are_what_connected_says() -> None:
    """A listener's own terms are shown to clients that speak of heart-beats, and only to those."""
    with Playbook(listener(heart_beat=Terms(12000, 34000))) as play:
        play.client_says(SAY_HELLO[b"1.2"].replace(b"\n\n", b"\nheart-beat:1,1\n\n"))
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(b"CONNECTED\nversion:1.2\nsession:s\n\n\0")
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s\nheart-beat:12000,34000\n\n\0")


def to(name: str = "orders") -> Upstream:
    """An upstream of this name."""
    return Upstream(name, alone(Broker("tcp://a:61613", "tcp:a:61613")))


def test_a_pattern_cannot_be_made_to_take_for_ever() -> None:
    """Many wildcards against a long destination that almost fits: the suite's time limit is the judge."""
    assert not Route(Match.GLOB, "*a" * 30 + "b", to()).matches(b"a" * 100_000)
