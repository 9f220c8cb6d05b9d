"""A listener's settings, each by what it does; which destinations a route takes."""

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Match, Route
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms
from tests.playbook import SAY_HELLO, Playbook, listener


def test_heart_beats_are_what_connected_says() -> None:
    """A listener's own terms are shown to clients that speak of heart-beats, and only to those."""
    with Playbook(listener(heart_beat=Terms(12000, 34000))) as play:
        play.client_says(SAY_HELLO[b"1.2"].replace(b"\n\n", b"\nheart-beat:1,1\n\n"))
        play.broker_is_asked()
        play.broker_says(b"CONNECTED\nversion:1.2\nsession:s\n\n\0")
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s\nheart-beat:12000,34000\n\n\0")


def to(name: str = "orders") -> Upstream:
    """An upstream of this name."""
    return Upstream(name, alone(Broker("tcp://a:61613", "tcp:a:61613")))


def test_a_pattern_cannot_be_made_to_take_for_ever() -> None:
    """Many wildcards against a long destination that almost fits: the suite's time limit is the judge."""
    assert not Route(Match.GLOB, "*a" * 30 + "b", to()).matches(b"a" * 100_000)
