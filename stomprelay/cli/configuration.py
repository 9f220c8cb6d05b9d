"""`run` runs a relay, and `check` checks its configuration. Options of the command line override the configuration
file. `check send` and `check subscribe` print whether a client may send or subscribe, which access rule decides it, and
why.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from stomprelay.cli.asking import Commands, command
from stomprelay.config import OPTIONS, Config, ConfigError
from stomprelay.config.address import MEMORY, server
from stomprelay.config.change import ConfigSource
from stomprelay.config.summary import ADVICE, summary
from stomprelay.relay.guard import places, request
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rules import AccessRules, ClientRules, Identity, Place, Request
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import Refused
from stomprelay.wire.names import DESTINATION, SEND, SUBSCRIBE

_RUN = """
Relays STOMP clients to STOMP brokers, in the foreground, until SIGTERM or SIGINT. Without options it serves clients of
this machine on port 61613, with a broker in memory. Options override the file. The log goes to standard error, and
nothing is written to the current folder. Exit status: 1 if the relay cannot start, with the reason on standard error.
"""
_CHECK = """
Reads a configuration, with its certificates and keys, and prints what would run. It opens no port, connects to nothing
and shows no secret. Exit status: 0 if the configuration is valid; 1 if not, with the reason on standard error.

With `send` or `subscribe` and a destination it prints instead which rule decides whether a client may do that. Exit
status: 0 if it is allowed; 1 if not; 2 if it cannot tell, with the reason on standard error.
"""
_CHECK_EXAMPLE = """
examples:
  stomprelay check -c stomprelay.toml
  stomprelay check -c stomprelay.toml --as alice --group clerks send /queue/orders
  stomprelay check -c stomprelay.toml subscribe /topic/prices --header ack:client
"""
LOG_FORMATS = ("text", "json")


def add(commands: Commands) -> None:
    """Add the commands to the parser."""
    run = command(commands, "run", "run the relay", _RUN)
    _add_configuration(run, required=False)
    run.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default=LOG_FORMATS[0],
        help="lines of text, or a JSON object in each line; default: %(default)s",
    )
    run.add_argument(
        "--take-over",
        action="store_true",
        help="take the listening sockets of the running relay at `handover`, which then stops",
    )
    run.set_defaults(run=_run)

    meaning = "check a configuration and print what would run, or which rule decides"
    check = command(commands, "check", meaning, _CHECK, _CHECK_EXAMPLE)
    _add_configuration(check, required=True)
    _add_question(check)
    check.set_defaults(run=_check)


def _add_configuration(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument("-c", "--config", required=required, metavar="FILE", help="the configuration, TOML")
    for name, option in OPTIONS.items():
        flags = [f"-{option.letter}"] if option.letter else []
        flags.append(f"--{name.replace('_', '-')}")
        several: dict[str, Any] = {"action": "append", "default": []} if name == "listen" else {}
        parser.add_argument(*flags, metavar=option.value, help=option.meaning, **several)


def _source(options: argparse.Namespace) -> ConfigSource:
    return ConfigSource.of(options.config, {name: getattr(options, name) for name in OPTIONS})


def _run(options: argparse.Namespace) -> int:
    # Signals have no default actions in process 1 of a container: SIGTERM would be lost until the reactor runs.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(_end_by(number)))
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.run import run

    try:
        ended = run(_source(options), options.log_format, taking_over=options.take_over)
    except BadEndpoint as error:
        raise ConfigError(str(error) if options.config is None else f"{options.config}: {error}") from None
    return 0 if ended is None else _end_by(ended)


def _end_by(number: int) -> int:
    """End this process by a signal. If the signal has no effect, as for process 1 of a container, return 0."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 0


def _check(options: argparse.Namespace) -> int:
    if options.asks is not None:
        try:
            return decide(options, _source(options).read(), print)
        except ConfigError as error:
            print(f"stomprelay: {error}", file=sys.stderr)
            return 2
    config = _source(options).read()
    _check_usable(options.config, config)
    print(summary(config))
    return 0


def _check_usable(file: str, config: Config) -> None:
    """Create all endpoints and load all certificates, as at a start, to check them. Raises `ConfigError`."""
    from twisted.internet import reactor
    from twisted.internet.protocol import Factory

    from stomprelay.service.network import tls
    from stomprelay.service.network.endpoints import BadEndpoint, client_endpoint, listening_service

    places = [(f"listener.{each.name}.endpoint", each.endpoint) for each in config.listeners]
    doors = (("admin", config.admin), ("metrics", config.metrics))
    places += [(name, place) for name, place in doors if place is not None]
    key = "admin_tls"
    try:
        if config.admin_tls is not None:
            tls.for_listener(config.admin_tls)
        for listener in config.listeners:
            key = f"listener.{listener.name}.tls"
            if listener.tls is not None:
                tls.for_listener(listener.tls)
        for upstream, broker in [(each, broker) for each in config.upstreams for broker in each.brokers]:
            key = f"upstream.{upstream.name}.tls"
            if broker.tls:
                tls.for_broker(upstream.tls, broker.host)
            key = f"upstream.{upstream.name}.uri"
            if broker.endpoint != MEMORY:
                client_endpoint(reactor, broker, upstream.tls)
        for key, place in places:
            # systemd's sockets exist only if systemd has started this process.
            if server(place).kind != "systemd":
                listening_service(reactor, key, place, Factory())
    except tls.Unusable as error:
        raise ConfigError(f"{file}: {key}.{error}") from None
    except BadEndpoint as error:
        raise ConfigError(f"{file}: {key}: {error}") from None


# Which rule decides

_COMMANDS = {"send": SEND, "subscribe": SUBSCRIBE}


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe the client and the frame. `asks` is None if the user gives no frame."""
    parser.add_argument("asks", nargs="?", choices=[*_COMMANDS], help="the client's command")
    parser.add_argument("destination", nargs="?", metavar="DESTINATION", help="its destination")
    who = parser.add_argument_group("the client, with send and subscribe; default: an unknown client")
    who.add_argument("--as", dest="user", default="", metavar="USER", help="the name of the user")
    who.add_argument(
        "--group", action="append", default=[], help="a group of the user; may be given several times"
    )
    who.add_argument("--certificate", default="", metavar="NAME", help="the name in the client's certificate")
    who.add_argument("--listener", metavar="NAME", help="the client's listener; default: the only one")
    what = parser.add_argument_group("the rest of the frame")
    what.add_argument(
        "--header",
        action="append",
        default=[],
        type=_header,
        metavar="NAME:VALUE",
        help="a header, such as ack:client; may be given several times",
    )
    what.add_argument(
        "--size", type=int, default=0, metavar="BYTES", help="bytes of the body; default: %(default)s"
    )


def _header(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError("must be NAME:VALUE")
    return name.encode(errors="surrogateescape"), value.encode(errors="surrogateescape")


def decide(options: argparse.Namespace, config: Config, print_line: Callable[[str], None]) -> int:
    """Print which rule decides. Return 0 if the frame is allowed, otherwise 1. Raises `ConfigError`."""
    if options.destination is None:
        raise ConfigError(f"check {options.asks}: needs a destination")
    listener = _listener(config, options.listener)
    identity = Identity(options.user, frozenset(options.group), options.certificate)
    destination = options.destination.encode(errors="surrogateescape")
    headers: Headers = [(DESTINATION, destination), *options.header]
    print_line(f"listener {listener.name}")
    if listener.rules is None:
        print_line("  allowed: there are no rules")
        return 0
    policy = ClientRules(listener.rules, identity)
    asked = request(_COMMANDS[options.asks], headers, options.size)
    try:
        named = places(asked.command, headers, policy.naming)
    except Refused as error:
        print_line(f"  denied: {error.message}: {error.detail}")
        return 1
    decision = policy.decide(policy.matching(named), asked)
    for line in _trail(listener.rules, policy, identity, asked, decision.place):
        print_line(f"  {line}")
    word = "allowed" if decision.allow else "denied"
    print_line(f"  {word}: {decision.reason}{_otherwise(options.destination, decision.place, policy)}")
    if decision.allow and listener.rules.advisory:
        print_line(f"  {ADVICE}")
    return 0 if decision.allow else 1


def _otherwise(said: str, place: Place, policy: ClientRules) -> str:
    shown = "" if place.destination == said else f", which may be read as {place.destination}"
    names = policy.naming.names(place.destination)[1:]
    return f"{shown}, and is {' or '.join(names)} to some brokers" if names else shown


def _listener(config: Config, name: str | None) -> Listener:
    known = {each.name: each for each in config.listeners}
    if name is None and len(known) == 1:
        name = config.listeners[0].name
    if name is None or name not in known:
        problem = "which one is not said" if name is None else f"there is no {name}"
        raise ConfigError(f"--listener: {problem}; known are {', '.join(known)}")
    return known[name]


def _trail(
    rules: AccessRules, policy: ClientRules, identity: Identity, request: Request, place: Place
) -> Iterator[str]:
    """Yield a line for each rule before the deciding rule, with the reason why the rule does not decide."""
    asked = {rule.number: (matches, holds) for rule, matches, holds in policy.trail(request, place)}
    for rule in rules.rules:
        if rule.number not in asked:
            if not rule.concerns(identity):
                yield f"{rule}: is for others"
            continue
        matches, holds = asked[rule.number]
        if matches and holds:
            return
        yield f"{rule}: {'a condition of it is not met' if matches else 'is for other destinations'}"
