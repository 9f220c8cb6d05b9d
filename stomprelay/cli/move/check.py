"""`move check`: what a move would change."""

import argparse
import sys

from stomprelay.cli.asking import Commands, admin_client, command, relay_options, seconds
from stomprelay.cli.move.precheck import journal, pair, sessions, tables
from stomprelay.config import ConfigError, load, load_upstreams
from stomprelay.journal.command import instant
from stomprelay.relay.model.features import PRODUCTS

_CHECK = """
Lists by client what a move from the upstream OLD to the upstream NEW would change, before anything is touched: what is
the same, what the relay says in other words, what the configuration chose, and what would be refused, with the line of
the configuration that decides it. It looks at the sessions of a running relay; with --journal or --tables, at what
clients did; with --login, it also holds a short conversation at NEW, with each login that the relay may use there. Exit
status: 0 if the move may begin; 1 if something would be refused or is not decided, or if the relay cannot be asked; 2
if it cannot be told.
"""
_CHECK_EXAMPLE = """
examples:
  stomprelay move check old new -c stomprelay.toml
  stomprelay move check old new -c stomprelay.toml --journal --since 2026-11-21 --login --json
"""


def add(moves: Commands) -> None:
    """Add the command."""
    meaning = "list what a move would change, before anything is touched"
    check = command(moves, "check", meaning, _CHECK, _CHECK_EXAMPLE, [relay_options()])
    check.add_argument("old", metavar="OLD", help="the upstream whose clients are to move")
    check.add_argument("new", metavar="NEW", help="the upstream to which they are to move")
    check.add_argument("--no-sessions", action="store_true", help="do not ask a running relay")
    check.add_argument(
        "--journal", nargs="*", metavar="PLACE",
        help="look at these folders or segments of a journal; without PLACE: at the folder of --config",
    )  # fmt: skip
    check.add_argument(
        "--tables",
        metavar="DIR",
        help="look at the tables of stomprelay-pipeline in this folder; needs Spark",
    )
    for flag, meaning in (("since", "at or after"), ("until", "before")):
        check.add_argument(
            f"--{flag}",
            type=instant,
            metavar="TIME",
            help=f"only what was recorded {meaning} this time (UTC)",
        )
    check.add_argument("--login", action="store_true", help="try the logins at NEW")
    check.add_argument(
        "--within", type=seconds, default=10.0, metavar="SECONDS",
        help="how long a conversation may take; default: %(default)g",
    )  # fmt: skip
    for flag, meaning in (
        ("clients", "the product for which clients were written; default: that of OLD"),
        ("product", "the product of NEW; default: its profile"),
    ):
        check.add_argument(f"--{flag}", choices=PRODUCTS, help=meaning)
    check.add_argument("--json", action="store_true", help="one JSON object")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    try:
        return _checked(options)
    except ConfigError as error:
        print(f"stomprelay: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"stomprelay: {error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 2


def _checked(options: argparse.Namespace) -> int:
    if options.config is None:
        raise ConfigError("--config: is missing; it has the two upstreams")
    config = load(options.config)
    names, said = (options.old, options.new), (options.clients, options.product)
    within = options.within if options.login else None
    found = pair.find(config, load_upstreams(options.config), names, said, within)
    report = found.report
    if not any(found.concerns(each.name, None) for each in config.listeners):
        raise ConfigError(f"{options.config}: no listener and no route uses upstream.{found.old.name}")
    if options.no_sessions or (config.admin is None and options.admin is None):
        report.unlooked.append("the sessions that run now")
    else:
        sessions.read(admin_client(options), found)
    if options.journal is None and options.tables is None:
        report.unlooked.append("a journal")
    if options.journal is not None:
        places = options.journal or [config.journal.directory]
        if places == [None]:
            raise ConfigError(
                f"{options.config}: journal.directory: is missing; name the folder with --journal"
            )
        journal.read(places, options.since, options.until, journal.Reading(found))
    if options.tables is not None:
        tables.add(tables.read(options.tables, options.since, options.until, found.judge), found)
    if within is None:
        report.unlooked.append(f"the logins at {found.new.name}")
    else:
        pair.try_logins(found, config.auths, within)
    for line in [report.as_json()] if options.json else report.lines():
        print(line)
    return 0 if report.may_begin else 1
