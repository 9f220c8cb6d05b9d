"""`stomprelay-pipeline replay`: send messages of the tables again, through the relay."""

import argparse
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from stomprelay.config.values import argument, count, per_second
from stomprelay.pipeline import options
from stomprelay.pipeline.bar import ProgressBar, many, spelled
from stomprelay.pipeline.replay.selection import INCOMPLETE, REASONS, Preview, Selection, preview, selected
from stomprelay.pipeline.replay.state import Frozen, ReplayState, write
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.spark.errors import as_value_error
from stomprelay.pipeline.stomp.options import OptionError, Sink
from stomprelay.pipeline.stomp.progress import JobProgress, ProgressError
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import Store
from stomprelay.pipeline.store.volume import absolute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

OFTEN: Final = 0.5
"""Seconds between two checks of the progress. After each check the bar on a terminal is drawn again."""
SELDOM: Final = 10.0
"""Seconds between two lines of progress if the output is no terminal."""
_PARTING: Final = 10.0
"""Seconds to wait for the work to end after an interrupt."""


_SINKS: Final = {
    "uri": "--to",
    "path": "--to",
    "destination": "--destination",
    "rate": "--rate",
    "window": "--window",
    "keyheader": "--key-header",
    "login": "--login",
    "passcode": "--passcode-file",
    "password": "--passcode-file",
    "passcodefile": "--passcode-file",
    "host": "--host",
    "progress": "--state",
    "id": "--state",
}
"""Options of the sink, in small letters, for which `replay` has an option of its own."""
_SAID: Final = re.compile(r'format "stomp", option ([^:]+): (.*)', re.DOTALL)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replay` to its parser."""
    options.add_tables(parser)
    parser.add_argument(
        "--where",
        metavar="SQL",
        help="which messages: a condition of Spark SQL over the columns of `frames`, and outcome, deliveries, "
        "redelivered, key, matched, receipt_us, delivery_us, ack_us and final of `messages`; such as "
        "\"destination = '/queue/orders' AND headers['kind'] = 'new'\"",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only messages that were sent since: 2026-11-21T08:00 (UTC, or with an offset), or 24h (ago)",
    )
    parser.add_argument(
        "--until", metavar="TIME", help="only messages that were sent before, in the same form"
    )
    parser.add_argument(
        "--to",
        metavar="URI",
        help="the address of the relay or a broker, as in the relay's configuration: tcp://relay:61613, ssl://…, "
        "failover:(…)",
    )
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        help="the folder in which this replay keeps the messages and its progress; with it the same command "
        "continues after any stop",
    )
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--destination", metavar="NAME", help="send all messages to this destination")
    target.add_argument(
        "--rename",
        nargs=2,
        metavar=("FROM", "TO"),
        action="append",
        default=[],
        help="send messages for a destination that begins with FROM to one that begins with TO instead; may be given "
        "more than once, the longest that fits counts",
    )
    parser.add_argument("--rate", metavar="N", type=argument(per_second), help="messages a second, at most")
    parser.add_argument(
        "--window",
        metavar="N",
        type=argument(count),
        default=1000,
        help="messages of a connection that may be unconfirmed at a time; so many are sent twice after a crash, "
        "at most (default: %(default)s)",
    )
    parser.add_argument(
        "--connections",
        metavar="N",
        type=argument(count),
        help="number of connections, each for some of the destinations (default: one for each of Spark's processors)",
    )
    parser.add_argument(
        "--key-header",
        metavar="NAME",
        default="relay-key",
        help="the header with a message's key, the same whenever it is sent again (default: %(default)s)",
    )
    parser.add_argument("--login", metavar="NAME", help="the login")
    parser.add_argument("--passcode-file", metavar="FILE", help="the file that holds the passcode")
    parser.add_argument("--host", metavar="NAME", help="the virtual host (default: /)")
    parser.add_argument(
        "--stomp",
        metavar="K=V",
        type=options.setting,
        action="append",
        default=[],
        help='a further option of format("stomp"), such as tls.ca=ca.pem; may be given more than once',
    )
    parser.add_argument(
        "--skip-incomplete",
        action="store_true",
        help="leave out messages whose whole body is not in the journal",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be sent, by destination, and send nothing"
    )


def main(given: argparse.Namespace) -> int:
    """Send the messages, or say what would be sent. Return the exit status. Raises `ValueError` and `StoreError`."""
    wanted = selection(given, round(time.time() * 1_000_000))
    if given.dry_run:
        return _dry_run(given, wanted)
    if given.to is None or given.state is None:
        raise ValueError("--to and --state must be given, unless it is a --dry-run")
    with ReplayState(given.state) as state:
        sink = sink_of(given, state)
        try:
            return _replay(given, wanted, state, sink)
        except ProgressError as error:
            raise ValueError(str(error)) from None


def _dry_run(given: argparse.Namespace, wanted: Selection) -> int:
    spark = options.session(given, "replay", brief=True, say=options.say)
    options.say("selecting messages")
    with launch.ending(spark):
        found = preview(selected(_store(spark, given), wanted))
    if found.lines:
        found.show(sys.stdout)
        sys.stdout.flush()
    _judge(given, found)
    options.say(f"{many(found.messages, 'message')} to {many(len(found.lines), 'destination')} would be sent")
    return 0


def _replay(given: argparse.Namespace, wanted: Selection, state: ReplayState, sink: Sink) -> int:
    frozen = state.frozen(asked(given))
    if frozen is not None:
        before = state.confirmed(frozen)
        if before >= frozen.messages:
            options.say(
                f"this replay is finished: all {frozen.messages:,} messages are confirmed; nothing is sent"
            )
            return 0
        options.say(f"going on: {before:,} of {frozen.messages:,} messages are confirmed")
    spark = options.session(given, "replay", brief=frozen is not None, say=options.say)
    with launch.ending(spark):
        if frozen is None:
            frozen = _freeze(given, _store(spark, given), wanted, state)
        _send(spark, state, frozen, sink, given.spark_log)
    return 0


def _store(spark: "SparkSession", given: argparse.Namespace) -> Store:
    store = opened(spark, given.tables, options.table_format(given))
    store.check()
    return store


def _freeze(given: argparse.Namespace, store: Store, wanted: Selection, state: ReplayState) -> Frozen:
    options.say("selecting messages")
    # Both passes read the same files, even if the tables change meanwhile.
    rows = selected(store, wanted)
    found = preview(rows)
    _judge(given, found)
    connections = given.connections or store.spark.sparkContext.defaultParallelism
    files = write(rows, state.place(), min(connections, len(found.lines)))
    frozen = state.freeze(asked(given), files)
    options.say(
        f"{many(frozen.messages, 'message')} to {many(len(found.lines), 'destination')}, "
        f"over {many(len(files), 'connection')}"
    )
    return frozen


def _judge(given: argparse.Namespace, found: Preview) -> None:
    """Print which messages are left out. Raises `ValueError` if the user does not allow this, or if none remain."""
    messages, left_out = found.messages, found.left_out
    incomplete = left_out.get(INCOMPLETE, 0)
    if incomplete and not given.skip_incomplete:
        raise ValueError(
            f"of {many(messages + incomplete, 'message')} {incomplete:,} have bodies that were not recorded as a "
            "whole: set bodies in the relay's [journal] to have them in future, or leave these out with "
            "--skip-incomplete"
        )
    for reason, number in left_out.items():
        options.say(f"left out: {many(number, 'message')} {REASONS[reason]}")
    if not messages:
        raise ValueError("no message was selected" + (" but those that are left out" if left_out else ""))
    if found.blanked:
        options.say(
            f"the journal has no values of these headers, so they are not sent: {', '.join(found.blanked)}"
        )


def _send(spark: "SparkSession", state: ReplayState, frozen: Frozen, sink: Sink, log: str) -> None:
    from stomprelay.pipeline.replay.task import DDL, sender

    paths = [state.folder / name for name, _ in frozen.files]
    id = JobProgress(state.progress).identity(None)
    before = state.confirmed(frozen)
    tasks = spark.range(0, len(paths), 1, len(paths)).mapInArrow(sender(sink, paths, id, log), DDL)
    again = "say the same again to go on"
    try:
        watch = ReplayWatch(sys.stderr, frozen.messages, before, lambda: state.confirmed(frozen))
        with as_value_error():
            rows = watch.follow(tasks.collect)
    except KeyboardInterrupt:
        options.say(
            f"stopped: {state.confirmed(frozen):,} of {frozen.messages:,} messages are confirmed; {again}"
        )
        raise
    failures = sorted({ours_of(row.error) for row in rows if row.error is not None})
    confirmed = state.confirmed(frozen)
    if failures or confirmed < frozen.messages:
        text = "; ".join(failures) or "the brokers did not confirm all"
        raise ValueError(f"{text}; {confirmed:,} of {frozen.messages:,} messages are confirmed, {again}")
    options.say(f"done: {frozen.messages:,} messages are confirmed, {confirmed - before:,} of them now")


def selection(given: argparse.Namespace, now: int) -> Selection:
    """Return the messages that the options name. Raises `ValueError`."""
    since, until = options.stretch(given, now, named=True)
    renames = tuple((old, new) for old, new in given.rename)
    if len({old for old, _ in renames}) != len(renames):
        raise ValueError("--rename: the same FROM is given twice")
    return Selection(given.where, since, until, given.destination, renames)


def asked(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options that define this replay. To continue the replay, the user must give the same options."""
    names = ("where", "since", "until", "to", "destination", "rename", "key_header", "skip_incomplete")
    return {"tables": absolute(given.tables), **{name: getattr(given, name) for name in names}}


def sink_of(given: argparse.Namespace, state: ReplayState) -> Sink:
    """Return the options of the sink. Raises `ValueError`; its text names options as `replay` does."""
    further = dict(given.stomp)
    for name in further:
        if (ours := _SINKS.get(name.lower())) is not None:
            raise ValueError(f"--stomp {name}: say {ours}")
    said: dict[str, str | None] = {
        "uri": given.to,
        "login": given.login,
        "passcodeFile": given.passcode_file,
        "host": given.host,
        "rate": None if given.rate is None else repr(given.rate),
        "window": str(given.window),
        "keyHeader": given.key_header,
        "progress": str(state.progress),
        "persistent": "false",  # messages keep their own header
        **further,
    }
    try:
        sink = Sink.read({name: value for name, value in said.items() if value is not None})
        if launch.is_local(given.master or launch.MASTER):
            sink.connection.upstream()  # reads the passcode's file; on a cluster it is elsewhere
    except OptionError as error:
        raise ValueError(ours_of(str(error))) from None
    return sink


def ours_of(said: str) -> str:
    """Return an error's text of the sink, but with the name that the option has in `replay`."""
    found = _SAID.fullmatch(said)
    if found is None:
        return said
    return f"{_SINKS.get(found[1].lower(), f'--stomp {found[1]}')}: {found[2]}"


@dataclass(eq=False, repr=False)
class ReplayWatch:
    """Shows how many of `total` messages are confirmed. `confirmed` returns that number. `before`: how many messages
    earlier runs had confirmed.
    """

    out: TextIO
    total: int
    before: int
    confirmed: Callable[[], int]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self._shown = self.clock()
        self._bar = ProgressBar(self.out, "messages")
        self._bar.begin("replay", self.total, self.before)

    def follow(self, work: Callable[[], T]) -> T:
        """Call `work` in another thread and show the progress. Return what `work` returns, or raise its error. An
        interrupt is raised in this thread, because inside a call of Java it would look like an error of that call.
        """
        outcome: Future[T] = Future()

        def do() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:
                outcome.set_exception(error)

        thread = Thread(target=do, name="replay", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(OFTEN)
                self.tick()
        except KeyboardInterrupt:
            thread.join(_PARTING)
            raise
        finally:
            self._bar.end()
        return outcome.result()

    def tick(self) -> None:
        """Show the progress: on a terminal at once, elsewhere if `SELDOM` seconds have passed since the last line."""
        if self._bar.live:
            self._bar.set(self.confirmed())
            self._bar.draw()
            return
        now = self.clock()
        if now - self._shown >= SELDOM:
            self._shown = now
            self.out.write(f"{self.line()}\n")
            self.out.flush()

    def line(self) -> str:
        """Return the progress as a line of text."""
        confirmed = self.confirmed()
        took = self.clock() - self._began
        text = f"{confirmed:,} of {self.total:,} messages confirmed"
        rate = (confirmed - self.before) / took if took > 0 else 0.0
        if rate > 0:
            text += f", {rate:,.0f}/s, {spelled((self.total - confirmed) / rate)} left"
        return text
