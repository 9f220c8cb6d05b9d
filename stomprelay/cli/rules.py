"""`check` with `send` or `subscribe`: prints which rule of a configuration decides what a client may do, and why."""

import argparse
from collections.abc import Callable, Iterator

from stomprelay.config import Config, ConfigError
from stomprelay.config.summary import ADVICE
from stomprelay.relay.guard import places, request
from stomprelay.relay.model.access import Identity
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rules import AccessRules, Place, Policy, Request
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import Refused
from stomprelay.wire.names import DESTINATION, SEND, SUBSCRIBE

_COMMANDS = {"send": SEND, "subscribe": SUBSCRIBE}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe the client and the frame; `asks` is None without `send` or `subscribe`."""
    parser.add_argument("asks", nargs="?", choices=[*_COMMANDS], help="the client's command")
    parser.add_argument("destination", nargs="?", metavar="DESTINATION", help="its destination")
    who = parser.add_argument_group(
        "who wants to do it, with send and subscribe; default: a client that nobody knows"
    )
    who.add_argument("--as", dest="user", default="", metavar="USER", help="the name of the user")
    who.add_argument(
        "--group", action="append", default=[], help="a group of the user; may be given several times"
    )
    who.add_argument("--certificate", default="", metavar="NAME", help="the name in the client's certificate")
    who.add_argument("--listener", metavar="NAME", help="the client's listener; default: the only one")
    what = parser.add_argument_group("what else the frame says")
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


def run(options: argparse.Namespace, config: Config, print_line: Callable[[str], None]) -> int:
    """Print which rule decides; return 0 if the frame is allowed, else 1. Raises `ConfigError`."""
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
    policy = Policy(listener.rules, identity)
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


def _otherwise(said: str, place: Place, policy: Policy) -> str:
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
    rules: AccessRules, policy: Policy, identity: Identity, request: Request, place: Place
) -> Iterator[str]:
    """Yield a line for each rule before the one that decides, with the reason why it does not decide."""
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
