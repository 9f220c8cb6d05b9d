"""The commands that ask a running relay."""

import argparse
import sys
from typing import TypeAlias

from stomprelay import remote
from stomprelay.config import ConfigError, load_admin
from stomprelay.config.admin import read_token
from stomprelay.config.config import COMMAND_LINE
from stomprelay.config.values import seconds_or_none

_PAUSE = """
Takes a broker of a running relay out of service, for an upgrade or a restart. No session comes to it any more; those
on it let their deliveries finish and move to other brokers of their group, or wait where there is none. Clients see
silence and heart-beats. Waits until no session is left on the broker. Exit status: 0 then; 1 if some are left, or if
the relay cannot be asked. What was paused stays paused until it is resumed.
"""
_RESUME = """
Lets a broker of a running relay serve again. Sessions that wait for it go on at once. Exit status: 0; 1 if the relay
cannot be asked.
"""
_BROKERS = """
Lists the brokers of a running relay. A broker is up or down as it was seen last, out for a while after failures,
paused, or unknown when nobody has asked for it yet. Exit status: 0; 1 if the relay cannot be asked.
"""
_SESSIONS = """
Lists who is connected to a running relay, each session in a line: login, address and version of the client, the
brokers that serve it, how long it has been there, and how long nothing but heart-beats came, SENDs whose RECEIPT is
awaited, deliveries that were not acknowledged, bytes received from client and brokers, what it is subscribed to, and
what it sent to lately. Texts are sorted from the first, numbers from the largest. Exit status: 0; 1 if the relay cannot
be asked, or some of its workers did not answer.
"""
_SESSIONS_EXAMPLE = """
examples:
  stomprelay sessions --sort unacknowledged --top 10
  stomprelay sessions --sort bytes_rate --top 10
  stomprelay sessions --filter login=app --filter 'destination=/queue/orders*' --json
"""
_KILL = """
Ends a session of a running relay, by its name. Its client gets an ERROR that says so and is closed, and its brokers are
left; what they had not confirmed may be lost, and is counted. Exit status: 0; 1 if there is no such session, or if the
relay cannot be asked.
"""
_DRAIN = """
Has a running relay refuse new clients, by an ERROR that says so, and `/readyz` say that it is drained; the sessions
that it has go on, for as long as their clients want. Waits until none is left. What was drained stays so, until
--cancel or a restart; the relay itself does not end by it. Exit status: 0 when no session is left; 1 if some are when
the time is over, or if the relay cannot be asked.
"""
_TAIL = """
Shows frames and events of a running relay as they pass, until Ctrl-C or until the sessions that are named have ended,
one in a line, as `stomprelay journal cat` does: its time, session and client; then `->` and a frame of the client, `<-`
with the broker's address and a frame of the broker, or `--` and an event. Secrets are out, by the same rules. Sessions
go on as before; where more passes than can be shown, frames are left out, and it says so (with --json on standard
error). Exit status: 0 with --count, and when the sessions have ended; 130 at Ctrl-C; 1 if there is no such session, or
if the relay cannot be asked.
"""
_TAIL_EXAMPLE = """
examples:
  stomprelay tail --destination '/queue/orders*' --bodies 200
  stomprelay tail --listener public --count 10 --json
"""
_RELOAD = """
Has a running relay read its configuration anew, as SIGHUP does, and prints the settings that changed: their keys, and
the brokers that came and went. Sessions go on. What needs a restart is named and left as it was. Exit status: 0; 1 if
the configuration cannot be used, with the reason on standard error, and then nothing has changed; or if the relay
cannot be asked.
"""


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add(commands: _Commands) -> None:
    """Add the commands that send requests to a running relay."""
    relay = _relay()
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--json", action="store_true", help="one JSON object in a line")
    _add_brokers(commands, relay, table)
    _add_sessions(commands, relay, table)
    commands.add_parser("reload", parents=[relay], help="read the configuration anew", description=_RELOAD)
    _add_drain(commands, relay, table)
    _add_tail(commands, relay, table)


def _relay() -> argparse.ArgumentParser:
    """Return the options that name the relay, and the credentials for it."""
    relay = argparse.ArgumentParser(add_help=False)
    relay.add_argument(
        "--admin",
        metavar="PLACE",
        help="the relay's admin endpoint, or its URL; default: that of --config, else " + remote.DEFAULT,
    )
    relay.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        help="the relay's configuration, which has its admin endpoint, and its token",
    )
    relay.add_argument(
        "--token-file",
        metavar="FILE",
        help="the file that holds the endpoint's token; default: that of --config",
    )
    relay.add_argument(
        "--ca", metavar="FILE", help="the authorities of the endpoint's certificate (https), PEM"
    )
    relay.add_argument("--certificate", metavar="FILE", help="our own certificate (https), PEM")
    relay.add_argument("--key", metavar="FILE", help="its key; default: in the same file")
    relay.set_defaults(run=_ask)
    return relay


def _add_brokers(commands: _Commands, relay: argparse.ArgumentParser, table: argparse.ArgumentParser) -> None:
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("broker", metavar="BROKER", help="its URI, or host:port; '*' is all of them")

    pause = commands.add_parser(
        "pause", parents=[named, relay], help="take a broker out of service", description=_PAUSE
    )
    pause.add_argument(
        "--within",
        type=_seconds,
        metavar="SECONDS",
        help="the longest that a session may wait for a quiet moment; default: the upstream's drain_timeout",
    )
    commands.add_parser(
        "resume", parents=[named, relay, table], help="let a broker serve again", description=_RESUME
    )
    commands.add_parser("brokers", parents=[relay, table], help="list the brokers", description=_BROKERS)


def _add_sessions(
    commands: _Commands, relay: argparse.ArgumentParser, table: argparse.ArgumentParser
) -> None:
    sessions = commands.add_parser(
        "sessions",
        parents=[relay, table],
        help="list who is connected",
        description=_SESSIONS,
        epilog=_SESSIONS_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sessions.add_argument(
        "--filter",
        action="append",
        default=[],
        type=_filter,
        metavar="NAME=GLOB",
        help=f"those only that match; NAME is {', '.join(remote.FILTERS)}, each once",
    )
    sessions.add_argument(
        "--sort", choices=(*remote.ORDERS, *remote.RATES), default=remote.ORDERS[0], metavar="NAME",
        help=f"the order: {', '.join((*remote.ORDERS, *remote.RATES))}; default: %(default)s",
    )  # fmt: skip
    sessions.add_argument(
        "--rates", action="store_true", help="look twice, a second apart, and show what passes in a second"
    )
    sessions.add_argument("--top", type=_count, metavar="N", help="the first N only")
    kill = commands.add_parser("kill", parents=[relay], help="end a session", description=_KILL)
    kill.add_argument("session", metavar="SESSION", help="its name, as the log and `sessions` have it")


def _add_drain(commands: _Commands, relay: argparse.ArgumentParser, table: argparse.ArgumentParser) -> None:
    drain = commands.add_parser(
        "drain",
        parents=[relay, table],
        help="let no new client in, and wait for the others",
        description=_DRAIN,
    )
    either = drain.add_mutually_exclusive_group()
    either.add_argument(
        "--within", type=_seconds, metavar="SECONDS", help="how long to wait; default: as long as it takes"
    )
    either.add_argument("--cancel", action="store_true", help="let clients in again")


def _add_tail(commands: _Commands, relay: argparse.ArgumentParser, table: argparse.ArgumentParser) -> None:
    tail = commands.add_parser(
        "tail",
        parents=[relay, table],
        help="show frames as they pass",
        description=_TAIL,
        epilog=_TAIL_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tail.add_argument(
        "--destination", action="append", default=[], metavar="GLOB",
        help="frames with such a destination only, as in '/queue/*': SEND, SUBSCRIBE, MESSAGE",
    )  # fmt: skip
    tail.add_argument("--session", action="append", default=[], metavar="NAME", help="of this session only")
    tail.add_argument(
        "--listener", action="append", default=[], metavar="NAME", help="of clients of this listener only"
    )
    tail.add_argument(
        "--bodies", type=_bodies, default=0, metavar="N", help="N bytes of each body, too; default: none"
    )
    tail.add_argument("--count", type=_count, metavar="N", help="end after N frames and events")


def _filter(text: str) -> tuple[str, str]:
    name, equals, glob = text.partition("=")
    if not equals or name not in remote.FILTERS:
        raise argparse.ArgumentTypeError(f"must be NAME=GLOB, with a name of {', '.join(remote.FILTERS)}")
    return name, glob


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a number, 1 or more, not {text!r}")
    return int(text)


def _bodies(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= remote.LONGEST_BODY):
        raise argparse.ArgumentTypeError(
            f"must be a number of bytes, from 0 to {remote.LONGEST_BODY}, not {text!r}"
        )
    return int(text)


def _seconds(text: str) -> float:
    try:
        return seconds_or_none(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text!r}") from None


def _ask(options: argparse.Namespace) -> int:
    relay = _admin(options)
    match options.command:
        case "pause":
            return remote.pause(relay, options.broker, options.within, _print_line)
        case "resume":
            return remote.resume(relay, options.broker, _print_line, as_json=options.json)
        case "sessions":
            return remote.sessions(
                relay,
                options.filter,
                options.sort,
                options.top,
                _print_line,
                as_json=options.json,
                rates=options.rates,
            )
        case "reload":
            return remote.reload(relay, _print_line)
        case "drain" if options.cancel:
            return remote.cancel_drain(relay, _print_line, as_json=options.json)
        case "drain":
            return remote.drain(relay, options.within, _print_line, as_json=options.json)
        case "kill":
            return remote.kill(relay, options.session, _print_line)
        case "tail":
            request = remote.watch(options.session, options.listener, options.destination, options.bodies)
            remark = _remark if options.json else _print_line
            return remote.tail(relay, request, options.count, _print_line, remark, as_json=options.json)
    return remote.brokers(relay, _print_line, as_json=options.json)


def _admin(options: argparse.Namespace) -> remote.AdminClient:
    """Return the admin endpoint for the requests: that of `--admin`, of the configuration file, or the default; with
    its credentials. Raises `ConfigError` if the file has none, or if a token cannot be read.
    """
    place, token, own = options.admin, None, None
    if options.config is not None:
        found = load_admin(options.config)
        token = found.token
        if place is None:
            place, own = found.endpoint, None if found.tls is None else found.tls.certificate
        if place is None:
            raise ConfigError(f"{options.config}: admin: is missing; without it, the relay cannot be asked")
    if options.token_file is not None:
        try:
            token = read_token(options.token_file)
        except ValueError as error:
            raise ConfigError(f"{COMMAND_LINE}: --token-file: {error}") from None
    if options.key is not None and options.certificate is None:
        raise ConfigError(f"{COMMAND_LINE}: --key: is of no use without --certificate")
    known = remote.Credentials(token, options.certificate, options.key, options.ca, own)
    return remote.AdminClient(remote.DEFAULT if place is None else place, known)


def _remark(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_line(line: str) -> None:
    # At once, for it takes a while until a broker is empty, or the next frame passes.
    print(line, flush=True)
