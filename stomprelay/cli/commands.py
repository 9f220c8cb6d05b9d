"""`stomprelay`: runs the relay, or shows a configuration, a file of the package, a translation or a journal. It also
shows the brokers and sessions of a running relay, pauses brokers, ends sessions, and moves destinations.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import stomprelay
from stomprelay.cli import asking, configuration, move, passwd
from stomprelay.cli.asking import Commands, command
from stomprelay.config import ConfigError, load
from stomprelay.explain import Explanation
from stomprelay.files import files
from stomprelay.journal import command as journal
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import PROFILES
from stomprelay.remote.client import AdminError
from stomprelay.wire.dialect import DIALECTS

_CONFIG = """
Prints a file of the package: the configuration with every setting and its default, a smaller one, or a systemd unit.
Exit status: 0.
"""
_CONFIG_EXAMPLE = """
examples:
  stomprelay config > stomprelay.toml
  stomprelay config stomprelay.service > /etc/systemd/system/stomprelay.service
"""

_EXPLAIN = """
Reads the frames of a conversation, a client's and a broker's in one text, and shows the translation of each between the
two versions: the frame before and after, the steps that changed it, the losses that were counted, or the ERROR that the
client gets. A frame's command shows its sender. A frame that refers to an earlier one (ACK, NACK, UNSUBSCRIBE, MESSAGE)
needs that frame before it. A refused frame has no effect on the frames after it.

In a text without NUL, ^@ stands for it; the last frame needs none. A passcode is not shown. Exit status: 0 if every
frame can be translated, 1 if not.
"""
_EXPLAIN_EXAMPLE = """
example:
  printf 'SUBSCRIBE\\ndestination:/queue/a\\nack:client\\n' | stomprelay explain --client 1.0 --broker 1.2
"""
_VERSIONS = [version.decode() for version in DIALECTS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong arguments raise `SystemExit`, as in argparse."""
    options = parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except (ConfigError, AdminError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The program that reads our output has closed it.
        sys.stdout = None
        return 0
    except OSError as error:
        sys.stdout = None
        return _fail(f"cannot write: {error.strerror}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands. The parsed options have a function `run`: call it with these options."""
    made = argparse.ArgumentParser(
        prog="stomprelay",
        description="A relay between STOMP clients and STOMP brokers.",
    )
    made.add_argument("--version", action="version", version=f"stomprelay {stomprelay.__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    configuration.add(commands)
    names = [*files()]
    meaning = "print the configuration with every setting, or another file of the package"
    config = command(commands, "config", meaning, _CONFIG, _CONFIG_EXAMPLE)
    config.add_argument(
        "file",
        nargs="?",
        default="stomprelay.toml",
        choices=names,
        metavar="FILE",
        help=f"one of {', '.join(names)}; default: %(default)s",
    )
    config.set_defaults(run=_config)

    _add_explain(commands)
    passwd.add(commands)
    asking.add(commands)
    move.add(commands)
    journal.add(commands).set_defaults(run=_journal)
    return made


def _config(options: argparse.Namespace) -> int:
    print(files()[options.file].read_text(encoding="utf-8"), end="")
    return 0


def _journal(options: argparse.Namespace) -> int:
    try:
        return journal.run(options, print, lambda line: print(f"stomprelay: {line}", file=sys.stderr))
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: cannot be read: {error.strerror}")


def _fail(reason: str) -> int:
    print(f"stomprelay: {reason}", file=sys.stderr)
    return 1


def _add_explain(commands: Commands) -> None:
    explain = command(commands, "explain", "show how frames are translated", _EXPLAIN, _EXPLAIN_EXAMPLE)
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
        help="what to do with a value that the other version cannot express; default: %(default)s",
    )
    explain.add_argument(
        "--config", metavar="FILE", help="a configuration; the broker's names are those of its upstream"
    )
    explain.add_argument("--upstream", metavar="NAME", help="default: the only one of the configuration")
    explain.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: standard input")
    explain.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{options.file}: cannot be read: {error.strerror}") from None
    mapped = None
    if options.config is not None:
        upstreams = {each.name: each for each in load(options.config).upstreams}
        name = options.upstream or (next(iter(upstreams)) if len(upstreams) == 1 else None)
        if name not in upstreams:
            raise ConfigError(f"{options.config}: --upstream: name one of {', '.join(upstreams)}")
        mapped = upstreams[name].map
    explanation = Explanation(
        options.client and options.client.encode(),
        options.broker and options.broker.encode(),
        PROFILES[options.profile],
        LossPolicy(options.loss),
        mapped,
    )
    paragraphs = 0
    for paragraph in explanation.paragraphs(text):
        print(paragraph, end="\n\n")
        paragraphs += 1
    if not paragraphs:
        raise ConfigError(f"{options.file}: there is no frame in it")
    return 1 if explanation.refused else 0
