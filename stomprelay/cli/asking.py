"""The commands that ask a running relay."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from stomprelay.config import ConfigError, load_admin
from stomprelay.config.admin import token_content
from stomprelay.config.config import COMMAND_LINE
from stomprelay.config.table import read_file
from stomprelay.config.values import argument, count, seconds_or_none
from stomprelay.journal.tail import LONGEST_BODY
from stomprelay.remote import commands as remote
from stomprelay.remote.client import DEFAULT, RATES, AdminClient, AdminCredentials

_PAUSE = """
Takes a broker of a running relay out of service, for an upgrade or a restart. The broker gets no new session. Its
sessions finish their deliveries and move to other brokers of their group, or wait if there is none; their clients get
heart-beats meanwhile, and no ERROR. The command waits until no session is left on the broker. The broker stays paused
until it is resumed. Exit status: 0 when no session is left; 1 if some are, or if the relay cannot be asked.
"""
_RESUME = """
Takes a paused broker of a running relay into service again. Sessions that wait for it continue at once. Exit status: 0;
1 if the relay cannot be asked.
"""
_BROKERS = """
Lists the brokers of a running relay. The state of a broker is up or down, as at the last connection, out for a while
after failures, paused, or unknown if the relay has not connected to it yet. Exit status: 0; 1 if the relay cannot be
asked.
"""
_SESSIONS = """
Lists the sessions of a running relay, one in a line: login, address and version of the client, its brokers, its age,
the time since more than heart-beats came, SENDs without their RECEIPT, unacknowledged deliveries, bytes received from
client and brokers, subscriptions, and destinations of the latest SENDs. Texts are sorted ascending, numbers from the
largest. Exit status: 0; 1 if the relay cannot be asked, or some of its workers did not answer.
"""
_SESSIONS_EXAMPLE = """
examples:
  stomprelay sessions --sort unacknowledged --top 10
  stomprelay sessions --sort bytes_rate --top 10
  stomprelay sessions --filter login=app --filter 'destination=/queue/orders*' --json
"""
_KILL = """
Ends a session of a running relay, by its name. What its client sent is delivered first; then the client gets an ERROR
and is closed. What brokers have not confirmed by then may be lost, and is counted. Exit status: 0; 1 if there is no
such session, or if the relay cannot be asked.
"""
_DRAIN = """
Makes a running relay refuse new clients, with an ERROR, and makes `/readyz` say so. Existing sessions continue until
their clients end them. The command waits until none is left. The relay stays drained until --cancel or a restart; it
does not stop. Exit status: 0 when no session is left; 1 if some are when the time is over, or if the relay cannot be
asked.
"""
_TAIL = """
Shows frames and events of a running relay as they pass, one in a line as in `stomprelay journal cat`, until Ctrl-C or
until the named sessions have ended. A line has time, session and client; then `->` and a frame of the client, `<-` with
the broker's address and a frame of the broker, or `--` and an event. Secrets are hidden, by the rules of the journal.
Sessions are not affected; frames beyond what can be shown are left out, and counted (with --json on standard error).
Exit status: 0 with --count, and when the sessions have ended; 130 at Ctrl-C; 1 if there is no such session, or if the
relay cannot be asked.
"""
_TAIL_EXAMPLE = """
examples:
  stomprelay tail --destination '/queue/orders*' --bodies 200
  stomprelay tail --listener public --count 10 --json
"""
_RELOAD = """
Makes a running relay read its configuration again, as SIGHUP does, and prints what changed: the keys of settings, and
brokers that were added and removed. Sessions continue. Settings that need a restart are named and stay as they were.
Exit status: 0; 1 if the configuration cannot be used, with the reason on standard error, and then nothing has changed;
or if the relay cannot be asked.
"""


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def command(
    commands: Commands,
    name: str,
    meaning: str,
    description: str,
    more: str = "",
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.ArgumentParser:
    """Add a command, and return its parser. `more`: text below its options; then all text keeps its lines."""
    form = argparse.RawDescriptionHelpFormatter if more else argparse.HelpFormatter
    return commands.add_parser(
        name, parents=parents, help=meaning, description=description, epilog=more, formatter_class=form
    )


def add(commands: Commands) -> None:
    """Add the commands that send requests to a running relay."""
    relay, table, named = relay_options(), table_options(), argparse.ArgumentParser(add_help=False)
    named.add_argument("broker", metavar="BROKER", help="its URI, or host:port; '*' is all of them")
    listed = [relay, table]

    pause = command(commands, "pause", "take a broker out of service", _PAUSE, parents=[named, relay])
    pause.add_argument(
        "--within", type=seconds, metavar="SECONDS",
        help="the longest that a session may wait for a quiet moment; default: the upstream's drain_timeout",
    )  # fmt: skip
    command(commands, "resume", "take a broker into service again", _RESUME, parents=[named, *listed])
    command(commands, "brokers", "list the brokers", _BROKERS, parents=listed)

    sessions = command(commands, "sessions", "list the sessions", _SESSIONS, _SESSIONS_EXAMPLE, listed)
    sessions.add_argument(
        "--filter", action="append", default=[], type=_filter, metavar="NAME=GLOB",
        help=f"only sessions that match; NAME is {', '.join(remote.FILTERS)}, each once",
    )  # fmt: skip
    orders = (*remote.ORDERS, *RATES)
    sessions.add_argument(
        "--sort", choices=orders, default=remote.ORDERS[0], metavar="NAME",
        help=f"the order: {', '.join(orders)}; default: %(default)s",
    )  # fmt: skip
    sessions.add_argument(
        "--rates", action="store_true", help="ask twice, a second apart, and show the traffic of a second"
    )
    sessions.add_argument("--top", type=_count, metavar="N", help="only the first N")
    kill = command(commands, "kill", "end a session", _KILL, parents=[relay])
    kill.add_argument("session", metavar="SESSION", help="its name, as in the log and in `sessions`")
    command(commands, "reload", "read the configuration again", _RELOAD, parents=[relay])

    meaning = "refuse new clients, and wait until all sessions have ended"
    drain = command(commands, "drain", meaning, _DRAIN, parents=listed)
    either = drain.add_mutually_exclusive_group()
    either.add_argument(
        "--within", type=seconds, metavar="SECONDS", help="how long to wait; default: without a limit"
    )
    either.add_argument("--cancel", action="store_true", help="accept clients again")

    tail = command(commands, "tail", "show frames as they pass", _TAIL, _TAIL_EXAMPLE, listed)
    for flag, metavar, meaning in (
        (
            "--destination",
            "GLOB",
            "only frames with such a destination, as in '/queue/*': SEND, SUBSCRIBE, MESSAGE",
        ),
        ("--session", "NAME", "only of this session"),
        ("--listener", "NAME", "only of clients of this listener"),
    ):
        tail.add_argument(flag, action="append", default=[], metavar=metavar, help=meaning)
    tail.add_argument(
        "--bodies", type=_bodies, default=0, metavar="N", help="show N bytes of each body; default: none"
    )
    tail.add_argument("--count", type=_count, metavar="N", help="end after N frames and events")


def table_options() -> argparse.ArgumentParser:
    """Return a parent parser with the options of a table."""
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--json", action="store_true", help="one JSON object in a line")
    return table


def relay_options() -> argparse.ArgumentParser:
    """Return a parent parser with the options for the running relay; see `admin_client`."""
    relay = argparse.ArgumentParser(add_help=False)
    place = f"the relay's admin endpoint, or its URL; default: that of --config, else {DEFAULT}"
    for flags, metavar, meaning in (
        (["--admin"], "PLACE", place),
        (["-c", "--config"], "FILE", "the relay's configuration, for its admin endpoint and its token"),
        (["--token-file"], "FILE", "the file that holds the endpoint's token; default: that of --config"),
        (["--ca"], "FILE", "the authorities of the endpoint's certificate (https), PEM"),
        (["--certificate"], "FILE", "our own certificate (https), PEM"),
        (["--key"], "FILE", "its key; default: in the same file"),
    ):
        relay.add_argument(*flags, metavar=metavar, help=meaning)
    relay.set_defaults(run=_ask)
    return relay


def _filter(text: str) -> tuple[str, str]:
    name, equals, glob = text.partition("=")
    if not equals or name not in remote.FILTERS:
        raise argparse.ArgumentTypeError(f"must be NAME=GLOB, with a name of {', '.join(remote.FILTERS)}")
    return name, glob


def _bodies(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= LONGEST_BODY):
        raise argparse.ArgumentTypeError(f"must be a number of bytes, from 0 to {LONGEST_BODY}, not {text!r}")
    return int(text)


seconds: Final = argument(seconds_or_none)
_count: Final = argument(count)


def _ask(options: argparse.Namespace) -> int:
    relay = admin_client(options)
    match options.command:
        case "pause":
            return remote.pause(relay, options.broker, options.within, print_line)
        case "resume":
            return remote.resume(relay, options.broker, print_line, as_json=options.json)
        case "sessions":
            return remote.sessions(
                relay,
                options.filter,
                options.sort,
                options.top,
                print_line,
                as_json=options.json,
                rates=options.rates,
            )
        case "reload":
            return remote.reload(relay, print_line)
        case "drain" if options.cancel:
            return remote.cancel_drain(relay, print_line, as_json=options.json)
        case "drain":
            return remote.drain(relay, options.within, print_line, as_json=options.json)
        case "kill":
            return remote.kill(relay, options.session, print_line)
        case "tail":
            request = remote.watch(options.session, options.listener, options.destination, options.bodies)
            remark = partial(print_line, file=sys.stderr) if options.json else print_line
            return remote.tail(relay, request, options.count, print_line, remark, as_json=options.json)
    return remote.brokers(relay, print_line, as_json=options.json)


def admin_client(options: argparse.Namespace) -> AdminClient:
    """Return a client for the admin endpoint, with the credentials. The endpoint is taken from `--admin`, else from the
    configuration file. Without a file it is `DEFAULT`. Raises `ConfigError`.
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
            token = read_file(options.token_file, token_content)
        except ValueError as error:
            raise ConfigError(f"{COMMAND_LINE}: --token-file: {error}") from None
    if options.key is not None and options.certificate is None:
        raise ConfigError(f"{COMMAND_LINE}: --key: is of no use without --certificate")
    known = AdminCredentials(token, options.certificate, options.key, options.ca, own)
    return AdminClient(DEFAULT if place is None else place, known)


# Each line is written at once, because it may take long until a broker is empty or the next frame passes.
print_line = partial(print, flush=True)
