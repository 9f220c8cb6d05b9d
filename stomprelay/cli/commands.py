"""`stomprelay`: runs the relay; shows a configuration, a file of the package, a translation or a journal; and shows,
pauses or ends the brokers and sessions of a running relay.
"""

import argparse
import sys
from collections.abc import Sequence

import stomprelay
from stomprelay.cli import asking, configuration, explain, passwd
from stomprelay.config import ConfigError
from stomprelay.files import files
from stomprelay.journal import command as journal
from stomprelay.remote import AdminError

_CONFIG = """
Prints a file of the package: the configuration with every setting and its default, a smaller one, or a systemd unit.
Exit status: 0.
"""
_CONFIG_EXAMPLE = """
examples:
  stomprelay config > stomprelay.toml
  stomprelay config stomprelay.service > /etc/systemd/system/stomprelay.service
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status. Wrong usage raises `SystemExit`, as argparse does."""
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
        # The reader of our output has closed it.
        sys.stdout = None
        return 0
    except OSError as error:
        sys.stdout = None
        return _fail(f"cannot write: {error.strerror}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands. In its result, `run` is the function to call with that result."""
    made = argparse.ArgumentParser(
        prog="stomprelay",
        description="A relay between STOMP clients and STOMP brokers.",
    )
    made.add_argument("--version", action="version", version=f"stomprelay {stomprelay.__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    configuration.add(commands)
    names = [*files()]
    config = commands.add_parser(
        "config",
        help="print the configuration with every setting, or another file of the package",
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

    explain.add(commands)
    passwd.add(commands)
    asking.add(commands)
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
