"""How a command of `stomprelay` is declared, and the readers of its options, for argparse."""

import argparse
from collections.abc import Sequence
from typing import TypeAlias

from stomprelay.config.values import seconds_or_none
from stomprelay.journal.records import parse_time
from stomprelay.journal.tail import LONGEST_BODY

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


def instant(text: str) -> int:
    """Return the time in an option, as ns since 1970."""
    try:
        return parse_time(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a time such as 2026-11-21T08:23, not {text!r}") from None


def table_options() -> argparse.ArgumentParser:
    """Return a parent parser with the options of a table."""
    table = argparse.ArgumentParser(add_help=False)
    table.add_argument("--json", action="store_true", help="one JSON object in a line")
    return table


def count(text: str) -> int:
    """Return a number of the command line, 1 or more."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a number, 1 or more, not {text!r}")
    return int(text)


def bodies(text: str) -> int:
    """Return how many bytes of bodies are to be shown."""
    if not (text.isascii() and text.isdigit() and int(text) <= LONGEST_BODY):
        raise argparse.ArgumentTypeError(f"must be a number of bytes, from 0 to {LONGEST_BODY}, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Return a number of seconds of the command line."""
    try:
        return seconds_or_none(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text!r}") from None


def positive(text: str) -> float:
    """Return a number of the command line above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number above 0")
    return number
