"""`move compare`: whether NEW has what OLD was sent, in the phase `shadow`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from stomprelay.cli.asking import Commands, command, seconds
from stomprelay.config import Config, ConfigError, load
from stomprelay.config.config import COMMAND_LINE
from stomprelay.journal.command import instant, table
from stomprelay.journal.settings import JournalSettings
from stomprelay.move.compare import Compare
from stomprelay.relay.model.listener import Match, Route
from stomprelay.relay.model.move import Kept, Phase
from stomprelay.wire.errors import visible

if TYPE_CHECKING:
    from stomprelay.service.drain import Comparing

_ABOUT: Final = """
Takes the copies of the phase `shadow` from the new broker, and compares them with what the relay's journal has of the
clients' SENDs: whether each came, once, with the same body, and in the order of its producer. Only copies are taken;
other messages stay where they are. Exit status: 0 if both sides are the same; 1 if they are not; 2 if it cannot be
told, with the reason on standard error.
"""
_EXAMPLE: Final = """
examples:
  stomprelay move compare orders -c stomprelay.toml --for 3600
  stomprelay move compare orders -c stomprelay.toml --keep /var/lib/stomprelay/journal --json
"""
_COUNTS: Final = ("sent", "same", "other", "missing", "twice", "late")


def add(moves: Commands) -> None:
    """Add the command."""
    compare = command(moves, "compare", "compare what both sides got in the phase shadow", _ABOUT, _EXAMPLE)
    compare.add_argument("name", metavar="NAME", help="the move: NAME of [move.NAME]")
    compare.add_argument(
        "destinations",
        nargs="*",
        metavar="DESTINATION",
        help="take copies from here at once; others of the move when the journal shows them",
    )
    compare.add_argument("-c", "--config", required=True, metavar="FILE", help="the configuration, TOML")
    compare.add_argument(
        "--for",
        dest="seconds",
        type=seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long; Ctrl-C ends it earlier; default: %(default)g",
    )
    compare.add_argument(
        "--since",
        type=instant,
        metavar="TIME",
        help="SENDs before this time (UTC) were compared before; default: the begin of the phase",
    )
    compare.add_argument(
        "--journal", metavar="DIR", help="the relay's journal; default: journal.directory of --config"
    )
    compare.add_argument(
        "--keep", metavar="DIR", help="write what came into a journal in this folder, for stomprelay-pipeline"
    )
    compare.add_argument("--json", action="store_true", help="print the result as a JSON object")
    compare.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        done = _compared(options, load(options.config))
    except ConfigError as error:
        print(f"stomprelay: {error}", file=sys.stderr)
        return 2
    core, damages = done.core, done.follower.damages
    if not core.reason and not core.comparison.counts:
        core.reason = "no copy came, and the journal has no SEND of the move in this time"
    for line in [_told(core, damages, done.only)] if options.json else _lines(core, damages, done.only):
        print(line)
    if core.reason:
        print(f"stomprelay: not compared: {core.reason}", file=sys.stderr)
        return 2
    return 0 if core.comparison.equal else 1


def _compared(options: argparse.Namespace, config: Config) -> "Comparing":
    # Twisted is loaded only if it is needed.
    from stomprelay.service.drain import Comparing, run
    from stomprelay.service.journal.journal import Journal
    from stomprelay.service.moves import Moves
    from stomprelay.service.network.endpoints import BadEndpoint, CannotStart
    from stomprelay.service.run import chosen_reactor

    route, moves = _route(config, options.name)
    phase, began, *_ = Moves.read(config).get(options.name, Kept())
    if phase is not Phase.SHADOW:
        raise ConfigError(f"{options.name} is {phase.value}: copies are sent in the phase shadow")
    directory = options.journal or config.journal.directory
    if directory is None:
        raise ConfigError(f"{options.config}: journal.directory: is missing; name the folder with --journal")
    since = int(began * 1e9) if options.since is None else options.since
    exact = [route.pattern] if route.match is Match.EXACT else []
    try:
        reactor, kept = chosen_reactor(), None
        if options.keep is not None:
            settings: JournalSettings = replace(config.journal, relay="compare")
            kept = Journal(options.keep, settings, reactor, os.urandom(4).hex(), lambda: ())
            kept.prepare()
        comparing = Comparing(
            reactor,
            route.upstream,
            directory,
            since,
            kept,
            [*exact, *options.destinations],
            moves,
            options.seconds,
        )
    except (BadEndpoint, CannotStart) as error:
        raise ConfigError(str(error)) from None
    run(reactor, [comparing])
    return comparing


def _route(config: Config, name: str) -> tuple[Route, Callable[[str, str], bool]]:
    """Return the route of a move, and `moves` of `Compare`. Raises `ConfigError`."""
    move = config.moves.get(name)
    if move is None:
        known = ", ".join(config.moves) or "none"
        raise ConfigError(f"{COMMAND_LINE}: there is no move {name}; known are {known}")
    listeners = {each.name: each for each in config.listeners if move in each.moves}

    def moves(listener: str, destination: str) -> bool:
        found = listeners.get(listener)
        route = None if found is None else found.moving(destination.encode())
        return route is not None and route.move is move

    routes = [each for listener in listeners.values() for each in listener.routes if each.move is move]
    return routes[0], moves


def _lines(core: Compare, damages: int, only: str = "") -> Iterator[str]:
    counts = core.comparison.counts
    rows = [
        (
            visible(each.destination),
            visible(each.producer),
            *(str(getattr(each, name)) for name in _COUNTS),
            f"{each.lag:.3f} s",
        )
        for each in counts
    ]
    yield from table(("destination", "producer", *(f"#{name}" for name in _COUNTS), "#lag"), rows)
    for destination, count in core.others.items():
        yield f"{visible(destination)}: {count} messages are no copies; they stay there"
    marked = sum([each.marked for each in counts])
    notes = {
        "copies came again, marked as such": marked,
        "copies are of SENDs that the journal does not have": core.comparison.unknown,
        "messages were not compared: too many waited": core.comparison.uncompared,
        "places of the journal are damaged": damages,
    }
    yield from [f"{count} {what}" for what, count in notes.items() if count]
    if only:
        yield f"NEW has other brokers than {only}: copies that are in queues of their own count as missing"
    if not core.reason:
        yield "both sides are the same" if core.comparison.equal else "the sides are not the same"


def _told(core: Compare, damages: int, only: str = "") -> str:
    return json.dumps(
        {
            "same": not core.reason and core.comparison.equal,
            "reason": core.reason,
            "counts": [asdict(each) for each in core.comparison.counts],
            "others": core.others,
            "unknown": core.comparison.unknown,
            "uncompared": core.comparison.uncompared,
            "damages": damages,
            "only": only,
        }
    )
