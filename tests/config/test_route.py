"""`[[route]]` to routes, and which listener has which."""

from pathlib import Path
from typing import Any

import pytest

from stomprelay.config.address import broker
from stomprelay.config.change import change
from stomprelay.config.listener import RouteRule, read_route, routed
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.relay.model.group import alone
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.move import Phase
from stomprelay.relay.model.upstream import Upstream
from tests.config.reference import config, refuses
from tests.config.reference import refusal as refusal_of

MAIN = Upstream("main", alone(broker("tcp://main")))
OTHER = Upstream("other", alone(broker("tcp://other")))
INSIDE = Listener("inside", "tcp:1", MAIN)
OUTSIDE = Listener("outside", "tcp:2", MAIN)


def rule(number: int = 1, **values: Any) -> RouteRule:
    """The rule of a table with these values."""
    table = ConfigTable("f", "/", values, ("route", number))
    return read_route(table, {"main": MAIN, "other": OTHER}, {"inside": INSIDE, "outside": OUTSIDE})


def refusal(**values: Any) -> str:
    """What is said about a table with these values."""
    with pytest.raises(ConfigError) as error:
        rule(2, **values)
    return str(error.value)


@pytest.mark.parametrize("match", list(Match))
def test_every_pattern(match: Match) -> None:
    """The keys are the words of the code."""
    said: dict[str, Any] = {match.value: "/queue/*"}
    found = rule(upstream="other", **said)
    assert found.route == Route(match, "/queue/*", OTHER)
    assert found.listeners == {"inside", "outside"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, ": needs a pattern: one of destination, prefix, glob"),
        ({"glob": "a", "prefix": "b"}, ".glob: excludes prefix: a route has one pattern"),
        ({"glob": "a"}, ".upstream: is missing"),
        ({"glob": "a", "upstream": "mian"}, '.upstream: no upstream is called "mian"; did you mean "main"?'),
        (
            {"glob": "a", "upstream": "main", "listener": "isnide"},
            '.listener: no listener is called "isnide"; did you mean "inside"?',
        ),
        ({"prefxi": "a"}, '.prefxi: unknown key; did you mean "prefix"?'),
    ],
)
def test_mistakes_are_told_by_their_key(values: dict[str, Any], said: str) -> None:
    """Whatever is wrong in the table, counted from 1."""
    assert refusal(**values).startswith(f"f: route[2]{said}")


def test_routes_in_the_order_of_the_file() -> None:
    """Each listener has those that are for it, and the first that matches counts."""
    rules = [
        rule(1, destination="/queue/a", upstream="main"),
        rule(2, prefix="/queue/", upstream="other", listener="outside"),
        rule(3, glob="*", upstream="main", listener="inside"),
    ]
    inside, outside = (routed(each, rules) for each in (INSIDE, OUTSIDE))
    assert inside.routes == (rules[0].route, rules[2].route)
    assert outside.routes == (rules[0].route, rules[1].route)
    assert outside.routed(b"/queue/a") is MAIN
    assert outside.routed(b"/queue/b") is OTHER
    assert outside.upstreams() == (MAIN, OTHER)


def test_a_route_that_never_counts() -> None:
    """The same pattern again, for a listener that has it already; other listeners may have it."""
    first = rule(1, prefix="/a", upstream="main", listener="inside")
    again = rule(2, prefix="/a", upstream="other")
    with refuses(r"^f: route\[2\]\.prefix: is the same as in route\[1\], which comes"):
        routed(INSIDE, [first, again])
    other = rule(2, prefix="/a", upstream="other", listener="outside")
    exact = rule(3, destination="/a", upstream="other")
    assert [len(routed(each, [first, other, exact]).routes) for each in (INSIDE, OUTSIDE)] == [2, 2]


MOVE = """
[upstream.main]
uri = "tcp://main"
[upstream.other]
uri = "{uri}"
[listener.public]
upstream = "main"
[[route]]
prefix = "/queue/"
upstream = "main"
[move.orders]
prefix = "/queue/"
to = "other"
"""


def test_a_move(tmp_path: Path) -> None:
    """It is a route with a phase, which begins `off`; without a file for the phases there is none."""
    said = refusal_of(tmp_path, MOVE.format(uri="tcp://other"))
    assert said == "moves_file: is missing: the file that keeps how far each move is"
    said = refusal_of(tmp_path, 'moves_file = "m"\n', MOVE.format(uri="fanout:(tcp://a,tcp://b)"))
    assert said == "move.orders.to: must have one group; upstream.other is a fan-out"
    found = config(tmp_path, 'moves_file = "m"\n', MOVE.format(uri="tcp://other"))
    assert found.moves_file == str(tmp_path / "m")
    [public] = found.listeners
    route, moving = public.routes
    assert (route.move, moving.move) == (None, found.moves["orders"])
    assert public.moving(b"/queue/a") is moving
    assert public.routed(b"/queue/a").name == "main"
    found.moves["orders"].enter(Phase.NEW, 1.0)
    assert (public.routed(b"/queue/a").name, public.unmoved(b"/queue/a").name) == ("other", "main")
    assert refusal_of(
        tmp_path,
        'moves_file = "m"\n',
        MOVE.format(uri="tcp://o"),
        '[move.b]\nprefix = "/queue/"\nto = "main"\n',
    ) == ("move.b.prefix: is the same as in move.orders, which comes before it")


def test_a_move_goes_on_after_a_reload(tmp_path: Path) -> None:
    """Sessions of before and after share it, whatever else is changed; new and removed ones are named."""
    before = config(tmp_path, 'moves_file = "m"\n', MOVE.format(uri="tcp://other"))
    text = MOVE.format(uri="tcp://another") + '[move.more]\nprefix = "/topic/"\nto = "other"\n'
    found = change("f", before, config(tmp_path, 'moves_file = "m"\n', text))
    assert found.config.moves["orders"] is before.moves["orders"]
    assert "listener.public.move" in found.changed
    assert "listener.public.route" not in found.changed
