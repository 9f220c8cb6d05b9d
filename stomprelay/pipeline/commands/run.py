"""`stomprelay-pipeline run` and `once`: make the tables from the journal."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from stomprelay.pipeline import options
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.volume import absolute, local

if TYPE_CHECKING:
    from stomprelay.pipeline.follow.stream import Stream

_SMALL: Final = 64 << 20
"""A journal with fewer bytes than this is small. It has some hundred thousand frames."""
_LARGE: Final = 2 << 30
"""If a journal has at least this many bytes, Java optimizes its code fully, because that saves time in all."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `once` and `run`. `run` has one option more."""
    options.add_settings(parser)
    if parser.get_default("command") == "run":
        parser.add_argument(
            "--interval",
            metavar="TIME",
            type=options.duration,
            default=Settings.interval,
            help=f"the time between two searches for new segments (default: {Settings.interval:g}s)",
        )


def main(given: argparse.Namespace) -> int:
    """Do the run. Return the exit status. Raises `ValueError`, and the errors of `Stream`."""
    from stomprelay.pipeline.follow.stream import Stream

    settings = options.settings(given)
    progress = ProgressLine(sys.stderr)
    once = given.command == "once"
    brief, quick = (once and is_small(settings.journal, most) for most in (_SMALL, _LARGE))
    spark = options.session(given, given.command, brief=brief, quick=quick, say=progress.say)
    with launch.ending(spark), closing(progress):
        stream = Stream(spark, settings, progress)
        with _signals(stream, progress):
            if given.command == "run":
                stream.endless()
            else:
                stream.once()
        progress.say(progress.summary())
    return 0


def is_small(journal: str, most: int = _SMALL) -> bool:
    """Return whether a journal is on this machine and has fewer than `most` bytes."""
    place = local(absolute(journal))
    try:
        return place is not None and sum(one.stat().st_size for one in place.iterdir()) < most
    except OSError:
        return False


@contextmanager
def _signals(stream: "Stream", progress: ProgressLine) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end the run after the current batch, and the second signal end it at once."""
    before: dict[int, Any] = {}

    def asked(number: int, _: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        progress.say("ending after this batch; once more to end at once")
        stream.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, asked)
    try:
        yield
    finally:
        for each, kept in before.items():
            signal.signal(each, kept)
