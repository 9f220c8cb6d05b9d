"""`stomprelay-pipeline`: tables from a relay's journal, and what can be done with them."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import stomprelay
from stomprelay.pipeline import options as shared
from stomprelay.pipeline.spark.errors import INSTALL, FailedSpark, MissingSpark
from stomprelay.pipeline.spark.java import MissingJava
from stomprelay.pipeline.store.store import StoreError


class Command(NamedTuple):
    """A command: its module, with `add_options` and `main`, and its description."""

    module: str
    about: str
    spark: bool = True
    """Whether the command starts Spark and has the options of `add_spark`."""
    format: bool = True
    """Whether the command has the option `--format` of `add_format`, for the format of the tables."""


COMMANDS: Final = {
    "once": Command("commands.run", "bring the tables up to date with what the journal has, and end"),
    "run": Command(
        "commands.run", "keep the tables up to date while the relay runs, until SIGINT or SIGTERM"
    ),
    "report": Command("report.command", "one HTML file with charts of what the tables say"),
    "query": Command("commands.query", "answer a question in SQL over the tables", format=False),
    "replay": Command("replay.command", "send messages from the tables again, through the relay"),
    "migrate": Command(
        "commands.migrate", "bring tables that the release before made to the layout of this one"
    ),
    "tables": Command("commands.catalogue", "say which tables there are, with their columns", False, False),
}
_COMPANIONS: Final = frozenset({"pyspark", "pyarrow", "pandas", "jinja2", "py4j", "numpy", "tqdm"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit status, 1 after an error. Raises `SystemExit` for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    options = None
    try:
        options = _parser(given).parse_args(given)
        status: int = options.main(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it.
        sys.stdout = None
        return 0
    except Exception as error:
        told = _told(error)
        if told is None or getattr(options, "spark_log", "off") != "off":
            raise
        print(f"stomprelay-pipeline: {told}", file=sys.stderr)
        return 1


def _told(error: Exception) -> str | None:
    """Return a sentence for the user about an error; None for a bug of the pipeline, which needs a traceback."""
    if isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
        if package in _COMPANIONS:
            return f"the pipeline needs the package {package}: {INSTALL}"
        return None
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if isinstance(error, MissingJava | MissingSpark | StoreError | ValueError):
        return str(error)
    if isinstance(error, FailedSpark):
        return f"{error} (--spark-log error says more)"
    return None


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser. Only the module of the given command is imported: other modules may need missing packages."""
    parser = argparse.ArgumentParser(
        prog="stomprelay-pipeline",
        description="Tables from a relay's journal, by Spark, and what can be done with them.",
    )
    parser.add_argument("--version", action="version", version=f"stomprelay {stomprelay.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = next((each for each in arguments if not each.startswith("-")), None)
    for name, command in COMMANDS.items():
        says = f"{command.about[0].upper()}{command.about[1:]}."
        sub = commands.add_parser(name, help=command.about, description=says)
        sub.set_defaults(command=name)
        if name == wanted:
            module = import_module(f"stomprelay.pipeline.{command.module}")
            sub.set_defaults(main=module.main)
            module.add_options(sub)
            if command.format:
                shared.add_format(sub)
            if command.spark:
                shared.add_spark(sub)
    return parser


if __name__ == "__main__":
    sys.exit(main())
