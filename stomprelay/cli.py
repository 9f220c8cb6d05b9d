"""`stomprelay`: run a relay, look at a configuration, at the files that come along, a translation or a journal, and at
the brokers and sessions of a relay that runs, which it can pause and end.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import stomprelay
from stomprelay import remote
from stomprelay.config import OPTIONS, Config, ConfigError, admin
from stomprelay.config.access import read_token
from stomprelay.config.address import MEMORY
from stomprelay.config.config import COMMAND_LINE
from stomprelay.config.endpoint import server
from stomprelay.config.summary import summary
from stomprelay.config.values import seconds_or_none
from stomprelay.explain import Explanation
from stomprelay.files import files
from stomprelay.journal import command as journal
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import PROFILES
from stomprelay.service.workers.plan import Source
from stomprelay.wire.dialect import DIALECTS

_RUN = """
Relays STOMP clients to STOMP brokers, in the foreground, until SIGTERM or SIGINT. Without any option: clients of this
machine on port 61613, to a broker in memory. Options win over the file. The log goes to standard error, and nothing is
written to the current folder. Exit status: 1 if the relay cannot start, with the reason on standard error.
"""
_CHECK = """
Reads a configuration, the certificates and keys that it names included, and prints what would run. Nothing is
opened or connected to, and no secret is shown. Exit status: 0 if it can run; 1 if not, with the reason on standard
error.
"""
_CONFIG = """
Prints a file that comes with the relay: the configuration that has every setting with its default, a smaller one, or a
unit of systemd. Exit status: 0.
"""
_CONFIG_EXAMPLE = """
examples:
  stomprelay config > stomprelay.toml
  stomprelay config stomprelay.service > /etc/systemd/system/stomprelay.service
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
awaited, deliveries that were not acknowledged, bytes received from client and brokers, and what it is subscribed to.
Texts are sorted from the first, numbers from the largest. Exit status: 0; 1 if the relay cannot be asked, or some of
its workers did not answer.
"""
_SESSIONS_EXAMPLE = """
examples:
  stomprelay sessions --sort unacknowledged --top 10
  stomprelay sessions --filter login=app --filter 'destination=/queue/orders*' --json
"""
_KILL = """
Ends a session of a running relay, by its name. Its client gets an ERROR that says so and is closed, and its brokers are
left; what they had not confirmed may be lost, and is counted. Exit status: 0; 1 if there is no such session, or if the
relay cannot be asked.
"""
LOG_FORMATS = ("text", "json")
_VERSIONS = [version.decode() for version in DIALECTS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong usage ends in `SystemExit`, as argparse does."""
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it.
        sys.stdout = None
        return 0
    except OSError as error:
        sys.stdout = None
        return _fail(f"cannot write: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stomprelay",
        description="A relay between STOMP clients and STOMP brokers.",
    )
    parser.add_argument("--version", action="version", version=f"stomprelay {stomprelay.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the relay", description=_RUN)
    _add_configuration(run, required=False)
    run.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default=LOG_FORMATS[0],
        help="lines of text, or a JSON object in each line; default: %(default)s",
    )
    run.set_defaults(run=_run)

    check = commands.add_parser(
        "check", help="validate a configuration and print what would run", description=_CHECK
    )
    _add_configuration(check, required=True)
    check.set_defaults(run=_check)

    names = [*files()]
    config = commands.add_parser(
        "config",
        help="print the configuration that has every setting, or another file that comes along",
        description=_CONFIG,
        epilog=_CONFIG_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    config.add_argument(
        "file",
        nargs="?",
        default="stomprelay.toml",
        choices=names,
        metavar="FILE",
        help=f"one of {', '.join(names)}; default: %(default)s",
    )
    config.set_defaults(run=_config)

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
        choices=[loss.value for loss in LossPolicy],
        default=LossPolicy.REPLACE.value,
        help="what becomes of a value that the other version cannot say; default: %(default)s",
    )
    explain.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: standard input")
    explain.set_defaults(run=_explain)

    _add_relay_commands(commands)
    journal.add(commands).set_defaults(run=_journal)
    return parser


def _add_configuration(parser: argparse.ArgumentParser, required: bool) -> None:
    """Add the options that say what runs: a file, and what the command line says over it."""
    parser.add_argument("-c", "--config", required=required, metavar="FILE", help="the configuration, TOML")
    for name, option in OPTIONS.items():
        flags = [f"-{option.letter}"] if option.letter else []
        flags.append(f"--{name.replace('_', '-')}")
        if name == "listen":
            parser.add_argument(
                *flags, action="append", default=[], metavar=option.value, help=option.meaning
            )
        else:
            parser.add_argument(*flags, metavar=option.value, help=option.meaning)


def _source(options: argparse.Namespace) -> Source:
    """Return the source of what the options of `_add_configuration` say. Raises `ConfigError`."""
    return Source.of(options.config, {name: getattr(options, name) for name in OPTIONS})


def _add_relay_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands that send requests to a running relay."""
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
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--json", action="store_true", help="one JSON object in a line")
    commands.add_parser(
        "resume", parents=[named, relay, table], help="let a broker serve again", description=_RESUME
    )
    commands.add_parser("brokers", parents=[relay, table], help="list the brokers", description=_BROKERS)
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
        "--sort", choices=remote.ORDERS, default=remote.ORDERS[0], metavar="NAME",
        help=f"the order: {', '.join(remote.ORDERS)}; default: %(default)s",
    )  # fmt: skip
    sessions.add_argument("--top", type=_count, metavar="N", help="the first N only")
    kill = commands.add_parser("kill", parents=[relay], help="end a session", description=_KILL)
    kill.add_argument("session", metavar="SESSION", help="its name, as the log and `sessions` have it")


def _filter(text: str) -> tuple[str, str]:
    name, equals, glob = text.partition("=")
    if not equals or name not in remote.FILTERS:
        raise argparse.ArgumentTypeError(f"must be NAME=GLOB, with a name of {', '.join(remote.FILTERS)}")
    return name, glob


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a number, 1 or more, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return seconds_or_none(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text!r}") from None


def _run(options: argparse.Namespace) -> int:
    # Signals have no default actions in process 1 of a container: SIGTERM would be lost until the reactor runs.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(_end_by(number)))
    from stomprelay.service.network.endpoints import BadEndpoint
    from stomprelay.service.run import run

    try:
        ended = run(_source(options), options.log_format)
    except ConfigError as error:
        return _fail(str(error))
    except BadEndpoint as error:
        return _fail(str(error) if options.config is None else f"{options.config}: {error}")
    return 0 if ended is None else _end_by(ended)


def _end_by(number: int) -> int:
    """End this process by a signal, as who sent it expects. Returns 0 in process 1 of a container, which lives on."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 0


def _check(options: argparse.Namespace) -> int:
    try:
        config = _source(options).read()
        _check_usable(options.config, config)
    except ConfigError as error:
        return _fail(str(error))
    print(summary(config))
    return 0


def _check_usable(file: str, config: Config) -> None:
    """Make every endpoint and load every certificate, as the relay does when it starts. Raises `ConfigError`."""
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
            # systemd's sockets are there only when it starts the relay itself.
            if server(place).kind != "systemd":
                listening_service(reactor, key, place, Factory())
    except tls.Unusable as error:
        raise ConfigError(f"{file}: {key}.{error}") from None
    except BadEndpoint as error:
        raise ConfigError(f"{file}: {key}: {error}") from None


def _config(options: argparse.Namespace) -> int:
    print(files()[options.file].read_text(encoding="utf-8"), end="")
    return 0


def _explain(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        return _fail(f"{options.file}: cannot be read: {error.strerror}")
    explanation = Explanation(
        options.client and options.client.encode(),
        options.broker and options.broker.encode(),
        PROFILES[options.profile],
        LossPolicy(options.loss),
    )
    paragraphs = 0
    for paragraph in explanation.paragraphs(text):
        print(paragraph, end="\n\n")
        paragraphs += 1
    if not paragraphs:
        return _fail(f"{options.file}: there is no frame in it")
    return 1 if explanation.refused else 0


def _journal(options: argparse.Namespace) -> int:
    try:
        return journal.run(options, print, lambda line: print(f"stomprelay: {line}", file=sys.stderr))
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: cannot be read: {error.strerror}")


def _ask(options: argparse.Namespace) -> int:
    try:
        relay = _admin(options)
        match options.command:
            case "pause":
                return remote.pause(relay, options.broker, options.within, _print_line)
            case "resume":
                return remote.resume(relay, options.broker, _print_line, as_json=options.json)
            case "sessions":
                return remote.sessions(
                    relay, options.filter, options.sort, options.top, _print_line, as_json=options.json
                )
            case "kill":
                return remote.kill(relay, options.session, _print_line)
        return remote.brokers(relay, _print_line, as_json=options.json)
    except (ConfigError, remote.AdminError) as error:
        return _fail(str(error))


def _admin(options: argparse.Namespace) -> remote.AdminClient:
    """Return the admin endpoint to send requests to: that of `--admin`, of the configuration file, or the default; with
    what it may ask for. Raises `ConfigError` where the file has none, and for a token that cannot be read.
    """
    place, token, own = options.admin, None, None
    if options.config is not None:
        found = admin(options.config)
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


def _print_line(line: str) -> None:
    # At once, for it takes a while until a broker is empty.
    print(line, flush=True)


def _fail(reason: str) -> int:
    print(f"stomprelay: {reason}", file=sys.stderr)
    return 1
