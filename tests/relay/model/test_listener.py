"""A listener's settings, each by what it does; which destinations a route takes."""

import pytest

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener, LossPolicy, Match, Route
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.heartbeat import Terms
from tests.playbook import SAY_HELLO, Playbook, joined, listener


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


def to(name: str = "orders") -> Upstream:
    """An upstream of this name."""
    return Upstream(name, alone(Broker("tcp://a:61613", "tcp:a:61613")))


ROUTES = [
    (Match.EXACT, "/queue/a", b"/queue/a", True),
    (Match.EXACT, "/queue/a", b"/queue/ab", False),
    (Match.EXACT, "/queue/a", b"/queue/A", False),
    (Match.EXACT, "/queue/*", b"/queue/a", False),
    (Match.EXACT, "/queue/*", b"/queue/*", True),
    (Match.EXACT, "", b"", True),
    (Match.EXACT, "/queue/ä", "/queue/ä".encode(), True),
    (Match.PREFIX, "/queue/", b"/queue/a", True),
    (Match.PREFIX, "/queue/", b"/queue/", True),
    (Match.PREFIX, "/queue/", b"/queue", False),
    (Match.PREFIX, "/queue/", b"x/queue/a", False),
    (Match.PREFIX, "/queue/*", b"/queue/a", False),
    (Match.PREFIX, "", b"anything", True),
    (Match.PREFIX, "/q/", b"/q/\xff", True),
    (Match.GLOB, "/queue/*", b"/queue/a", True),
    (Match.GLOB, "/queue/*", b"/queue/a/b", True),
    (Match.GLOB, "/queue/*", b"/queue/", True),
    (Match.GLOB, "/queue/*", b"/queue/a\nb", True),
    (Match.GLOB, "/queue/*", b"/topic/a", False),
    (Match.GLOB, "/queue/*", b"x/queue/a", False),
    (Match.GLOB, "/queue/*", b"/queue/\xff\xfe", True),
    (Match.GLOB, "*.orders", b"eu.orders", True),
    (Match.GLOB, "*.orders", b"eu.orders.x", False),
    (Match.GLOB, "*.orders", b"euXorders", False),
    (Match.GLOB, "/queue/?", b"/queue/a", True),
    (Match.GLOB, "/queue/?", "/queue/ä".encode(), True),
    (Match.GLOB, "/queue/?", b"/queue/ab", False),
    (Match.GLOB, "/queue/?", b"/queue/", False),
    (Match.GLOB, "/queue/[ab]", b"/queue/b", True),
    (Match.GLOB, "/queue/[ab]", b"/queue/c", False),
    (Match.GLOB, "/queue/[!ab]", b"/queue/c", True),
    (Match.GLOB, "/queue/[a-c]x", b"/queue/bx", True),
    (Match.GLOB, "/queue/a", b"/queue/A", False),
    (Match.GLOB, "*", b"", True),
    (Match.GLOB, "(a|b)", b"a", False),
]


@pytest.mark.parametrize(("match", "pattern", "destination", "expected"), ROUTES)
def test_what_matches(match: Match, pattern: str, destination: bytes, expected: bool) -> None:
    """Octet for octet, the beginning, or by shell wildcards, which know no hierarchy."""
    assert Route(match, pattern, to()).matches(destination) is expected


def test_a_pattern_cannot_be_made_to_take_for_ever() -> None:
    """Many wildcards against a long destination that almost fits: the suite's time limit is the judge."""
    assert not Route(Match.GLOB, "*a" * 30 + "b", to()).matches(b"a" * 100_000)


def test_the_first_that_matches_counts() -> None:
    """In the order of the configuration; where none does the listener's own upstream takes it."""
    main, first, second = to("main"), to("first"), to("second")
    front = Listener(
        "public",
        "tcp:61613",
        main,
        routes=(
            Route(Match.EXACT, "/queue/a", first),
            Route(Match.PREFIX, "/queue/", second),
            Route(Match.GLOB, "/queue/*", first),
        ),
    )
    assert front.routed(b"/queue/a") is first
    assert front.routed(b"/queue/b") is second
    assert front.routed(b"/topic/a") is main
    assert front.upstreams() == (main, first, second)
