"""Which destinations a route takes."""

import dataclasses

import pytest

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.upstream import Upstream


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


def test_it_is_a_value() -> None:
    """Sessions share routes; equal ones are equal, and what they are made of does not show."""
    over = to()
    route = Route(Match.PREFIX, "/queue/", over)
    assert route == Route(Match.PREFIX, "/queue/", over)
    assert route != Route(Match.GLOB, "/queue/", over)
    assert "_matches" not in repr(route)
    with pytest.raises(dataclasses.FrozenInstanceError):
        route.pattern = "/topic/"  # type: ignore[misc]


def test_the_kinds_by_name() -> None:
    """The configuration has them as keys."""
    assert [match.value for match in Match] == ["destination", "prefix", "glob"]
