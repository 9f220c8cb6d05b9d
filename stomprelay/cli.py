"""`stomprelay`: look at a configuration, or at a translation, without running anything."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import stomprelay
from stomprelay.config import Config, ConfigError, load, overridden
from stomprelay.config.address import MEMORY
from stomprelay.config.endpoint import server
from stomprelay.config.summary import summary
from stomprelay.explain import Explanation
from stomprelay.relay.listener import Loss
from stomprelay.relay.profile import PROFILES
from stomprelay.wire.dialect import DIALECTS

_CHECK = """
Reads a configuration, the certificates and keys that it names included, and prints what would run. Nothing is
opened or connected to, and no secret is shown. Exit status: 0 if it can run; 1 if not, with the reason on standard
error.
"""
_EXPLAIN = """
Reads the frames of a conversation, a client's and a broker's in one text, and shows what becomes of each between
the two versions: the frame as it came and as it goes out, the steps that changed it and what was counted as lost,
or the ERROR that the client gets. A frame's command tells who said it. What refers to an earlier frame (ACK, NACK,
UNSUBSCRIBE, MESSAGE) needs that frame before it; what follows a refused frame is shown as if that had not been said.

Where the text has no NUL, ^@ stands for it; the last frame needs none. A passcode is not shown. Exit status: 0 if
every frame can be carried, 1 if not.
"""
_EXAMPLE = """
example:
  printf 'SUBSCRIBE\\ndestination:/queue/a\\nack:client\\n' | stomprelay explain --client 1.0 --broker 1.2
"""
_VERSIONS = [version.decode() for version in DIALECTS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status. Wrong usage ends in `SystemExit`, as argparse does."""
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _explain(options) if options.command == "explain" else _check(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stdout = None
        return 0
    except OSError as error:
        sys.stdout = None
        return _fail(f"cannot write: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stomprelay",
        description="A relay between STOMP clients and STOMP brokers. It runs as: twistd stomprelay",
    )
    parser.add_argument("--version", action="version", version=f"stomprelay {stomprelay.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    check = commands.add_parser(
        "check", help="validate a configuration and print what would run", description=_CHECK
    )
    check.add_argument("-c", "--config", required=True, metavar="FILE", help="the configuration, TOML")
    check.add_argument(
        "-l", "--listen", action="append", default=[], metavar="ENDPOINT", help="as for twistd"
    )
    check.add_argument("-u", "--upstream", metavar="URI", help="as for twistd")
    check.add_argument("--admin", metavar="ENDPOINT", help="as for twistd")

    explain = commands.add_parser(
        "explain",
        help="show how frames would be translated",
        description=_EXPLAIN,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument(
        "--client",
        choices=_VERSIONS,
        help="the client's version; default: what the CONNECT settles, else 1.2",
    )
    explain.add_argument(
        "--broker",
        choices=_VERSIONS,
        help="the broker's version; default: what the CONNECTED settles, else 1.2",
    )
    explain.add_argument(
        "--profile",
        choices=PROFILES,
        default="auto",
        help="the broker's product; default: what CONNECTED shows",
    )
    explain.add_argument(
        "--loss",
        choices=[loss.value for loss in Loss],
        default=Loss.REPLACE.value,
        help="what becomes of a value that the other version cannot say; default: %(default)s",
    )
    explain.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: standard input")
    return parser


def _check(options: argparse.Namespace) -> int:
    try:
        config = overridden(load(options.config), options.listen, options.upstream, options.admin)
        _usable(options.config, config)
    except ConfigError as error:
        return _fail(str(error))
    print(summary(config))
    return 0


def _usable(file: str, config: Config) -> None:
    """Make every endpoint and load every certificate, as the relay does when it starts. Raises `ConfigError`."""
    from twisted.internet import reactor
    from twisted.internet.protocol import Factory

    from stomprelay.service import tls
    from stomprelay.service.endpoints import BadEndpoint, entrance, way

    places = [(f"listener.{each.name}.endpoint", each.endpoint) for each in config.listeners]
    if config.admin is not None:
        places.append(("admin", config.admin))
    key = ""
    try:
        for listener in config.listeners:
            key = f"listener.{listener.name}.tls"
            if listener.tls is not None:
                tls.server(listener.tls)
        for upstream in {each.upstream.name: each.upstream for each in config.listeners}.values():
            key = f"upstream.{upstream.name}.tls"
            if upstream.broker.tls:
                tls.client(upstream.tls, upstream.broker.host)
            key = f"upstream.{upstream.name}.uri"
            if upstream.broker.endpoint != MEMORY:
                way(reactor, upstream.broker, upstream.tls)
        for key, place in places:
            # systemd's sockets are there only when it starts the relay itself.
            if server(place).kind != "systemd":
                entrance(reactor, key, place, Factory())
    except tls.Unusable as error:
        raise ConfigError(f"{file}: {key}.{error}") from None
    except BadEndpoint as error:
        raise ConfigError(f"{file}: {key}: {error}") from None


def _explain(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        return _fail(f"{options.file}: cannot be read: {error.strerror}")
    explanation = Explanation(
        options.client and options.client.encode(),
        options.broker and options.broker.encode(),
        PROFILES[options.profile],
        Loss(options.loss),
    )
    paragraphs = 0
    for paragraph in explanation.told(text):
        print(paragraph, end="\n\n")
        paragraphs += 1
    if not paragraphs:
        return _fail(f"{options.file}: there is no frame in it")
    return 1 if explanation.refused else 0


def _fail(reason: str) -> int:
    print(f"stomprelay: {reason}", file=sys.stderr)
    return 1
