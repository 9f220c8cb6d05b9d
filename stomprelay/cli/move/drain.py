"""`move drain`: takes what waits in queues of one broker, and gives it to another one."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final, TextIO

from stomprelay.cli.asking import Commands, command
from stomprelay.config import ConfigError, load_upstreams, upstream_at
from stomprelay.config.address import MEMORY
from stomprelay.config.config import COMMAND_LINE
from stomprelay.config.table import read_file
from stomprelay.config.values import connect_value, passcode_content
from stomprelay.move.drain import Drain
from stomprelay.relay.model.group import Group
from stomprelay.relay.model.names import NameMap
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Credentials
from stomprelay.wire.errors import Refused

_DRAIN: Final = """
Takes the messages that wait in queues of one broker, and gives them to another broker. Each message is acknowledged at
the old broker only when the new one has confirmed it. The order of each queue is kept. The command ends when nothing
came for a while, or when a message cannot be moved. What is not moved is still at the old broker; run the command again
then. If the new broker may have a message twice, the second one has the header `relay-resent:true`.

A queue is named as clients name it. The names at the brokers are those of `[upstream.NAME.map]`. Exit status: 0 if the
queues are drained; 1 if not, with the reason on standard error.
"""
_DRAIN_EXAMPLE: Final = """
examples:
  stomprelay move drain -c stomprelay.toml --from old --to new /queue/orders /queue/invoices
  stomprelay move drain --from tcp://old:61613 --to tcp://new:61613 --login app --passcode-file secret /queue/orders
"""


def add(moves: Commands) -> None:
    """Add the command."""
    meaning = "take what waits in queues of one broker, and give it to another"
    drain = command(moves, "drain", meaning, _DRAIN, _DRAIN_EXAMPLE)
    drain.add_argument("queues", nargs="+", metavar="QUEUE", help="a queue, as in /queue/orders")
    place = "an upstream of the configuration, or a URI as in tcp://broker:61613"
    drain.add_argument(
        "--from", dest="old", required=True, metavar="UPSTREAM", help=f"the old broker: {place}"
    )
    drain.add_argument("--to", dest="new", required=True, metavar="UPSTREAM", help="the new broker, likewise")
    drain.add_argument("-c", "--config", metavar="FILE", help="the configuration, TOML")
    drain.add_argument(
        "--login", metavar="LOGIN", help="for brokers whose upstream has no login: the user's name"
    )
    drain.add_argument("--passcode-file", metavar="FILE", help="the file with the passcode for --login")
    drain.add_argument(
        "--rate", type=_positive, metavar="N", help="at most N messages a second; default: no limit"
    )
    drain.add_argument(
        "--idle",
        type=_positive,
        default=5.0,
        metavar="SECONDS",
        help="end when nothing came for so many seconds; default: %(default)g",
    )
    drain.add_argument(
        "--skip",
        action="store_true",
        help="do not end at a message that the new broker refuses: leave it at the old one, and list it",
    )
    drain.add_argument("--json", action="store_true", help="print the result as a JSON object")
    drain.set_defaults(run=_drain)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number above 0")
    return number


def _drain(options: argparse.Namespace) -> int:
    # Twisted is loaded only if it is needed.
    from stomprelay.service.drain import Moving, run
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.run import chosen_reactor

    known = {} if options.config is None else load_upstreams(options.config)
    credentials = _credentials(options)
    old, new = (
        _upstream(known, option, name, credentials)
        for option, name in (("--from", options.old), ("--to", options.new))
    )
    queues = [*dict.fromkeys(options.queues)]
    _check_distinct(old, new, queues)
    reactor = chosen_reactor()
    settings = {"rate": options.rate, "idle": options.idle, "skip": options.skip}
    try:
        movings = [Moving(reactor, queues, each, new, **settings) for each in _each(old)]
    except BadEndpoint as error:
        raise ConfigError(str(error)) from None
    progress = Progress(sys.stderr) if sys.stderr.isatty() else None
    run(reactor, movings, progress)
    if progress is not None:
        progress.clear()
    drains = [(str(old.brokers[number]), each.core) for number, each in enumerate(movings)]
    if options.json:
        print(json.dumps(_told(drains)))
    else:
        for line in _lines(drains):
            print(line)
    for _, each in drains:
        if each.reason:
            print(f"stomprelay: not drained: {each.reason}", file=sys.stderr)
    return 1 if any(each.reason for _, each in drains) else 0


def _credentials(options: argparse.Namespace) -> Credentials | None:
    if options.login is None:
        if options.passcode_file is not None:
            raise ConfigError(f"{COMMAND_LINE}: --passcode-file: needs --login")
        return None
    try:
        login = connect_value(options.login)
        path = options.passcode_file
        passcode = None if path is None else read_file(path, lambda content, _mode: passcode_content(content))
    except ValueError as error:
        raise ConfigError(f"{COMMAND_LINE}: --login: {error}") from None
    return Credentials(login, passcode)


def _upstream(
    known: dict[str, Upstream], option: str, name: str, credentials: Credentials | None
) -> Upstream:
    """Return the upstream of this name, or at this URI. Raises `ConfigError`."""
    found = known.get(name)
    try:
        if found is None:
            if ":" not in name:
                raise ValueError(f"there is no upstream {name}; known are {', '.join(known) or 'none'}")
            found = upstream_at(option.removeprefix("--"), name)
        if any(each.endpoint == MEMORY for each in found.brokers):
            raise ValueError(f"{MEMORY} is in the process of a relay: give the address of that relay")
        if len(found.groups) > 1:
            raise ValueError("a fan-out has no single broker: give the URI of one of its groups")
    except ValueError as error:
        raise ConfigError(f"{COMMAND_LINE}: {option}: {error}") from None
    return found if found.credentials is not None else replace(found, credentials=credentials)


def _check_distinct(old: Upstream, new: Upstream, queues: Sequence[str]) -> None:
    """Raise `ConfigError` if a queue would be drained into itself, or a name is none."""
    same = {each.uri for each in old.brokers} & {each.uri for each in new.brokers}
    for queue in queues:
        if not queue.isprintable():
            raise ConfigError(f"{COMMAND_LINE}: QUEUE: must be a name without control characters")
        try:
            spelled = [NameMap(each.map.names).to_broker(queue.encode()) for each in (old, new)]
        except Refused as error:
            raise ConfigError(f"{COMMAND_LINE}: {queue}: {error.message}: {error.detail}") from None
        if same and spelled[0] == spelled[1]:
            raise ConfigError(f"{COMMAND_LINE}: {queue}: {', '.join(same)} is the old and the new broker")


def _each(upstream: Upstream) -> list[Upstream]:
    """Return an upstream for each broker of a list: each of them may have messages."""
    return [
        replace(upstream, groups=(Group(str(broker), (broker,), group.reconnect),))
        for group in upstream.groups
        for broker in group.brokers
    ]


class Progress:
    """Shows on one line of a terminal what was moved."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._before = 0
        self._length = 0

    def __call__(self, drain: Drain) -> None:
        """Show the drain as it is now. Call this once a second."""
        moved = drain.moved
        rate = max(moved - self._before, 0)
        self._before = moved
        self._show(f"{_counted(moved, 'message')} moved, {rate:,} a second, {drain.under_way:,} under way")

    def clear(self) -> None:
        """Remove the line."""
        self._show("")
        self._stream.write("\r")
        self._stream.flush()

    def _show(self, text: str) -> None:
        self._stream.write(f"\r{text:{self._length}}")
        self._stream.flush()
        self._length = len(text)


Drains = Sequence[tuple[str, Drain]]
"""The drains, each with its old broker."""


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s'[: count != 1]}"


def _lines(drains: Drains) -> list[str]:
    lines = []
    for broker, drain in drains:
        for queue in drain.queues:
            at = f"{queue.name} at {broker}" if len(drains) > 1 else queue.name
            more = f", {queue.marked:,} of them marked relay-resent" if queue.marked else ""
            lines.append(
                f"{at}: {_counted(queue.moved, 'message')} moved, {_counted(queue.bytes, 'byte')}{more}"
            )
            if queue.shadows:
                lines.append(f"  {queue.shadows:,} removed, which were copies of the phase shadow")
            if queue.repliless:
                lines.append(
                    f"  {queue.repliless:,} without reply-to, which named a temporary queue of the old broker"
                )
            lines += [f"  refused: {each.message}: {each.reason}" for each in queue.refused]
    moved = sum([each.moved for _, each in drains])
    seconds = sum([each.seconds for _, each in drains])
    unconfirmed = sum([each.unconfirmed for _, each in drains])
    left = "none is unconfirmed"
    if unconfirmed:
        left = f"{unconfirmed:,} unconfirmed: they are at the old broker, and perhaps at the new one"
    rate = f", {moved / seconds:,.0f} a second" if seconds else ""
    lines.append(f"{_counted(moved, 'message')} in {seconds:.1f} s{rate}; {left}")
    return lines


def _told(drains: Drains) -> dict[str, object]:
    queues = [
        {"broker": broker, **asdict(each), "refused": [one._asdict() for one in each.refused]}
        for broker, drain in drains
        for each in drain.queues
    ]
    return {
        "drained": not any(each.reason for _, each in drains),
        "reasons": [each.reason for _, each in drains if each.reason],
        "moved": sum([each.moved for _, each in drains]),
        "unconfirmed": sum([each.unconfirmed for _, each in drains]),
        "seconds": round(sum([each.seconds for _, each in drains]), 3),
        "queues": queues,
    }
