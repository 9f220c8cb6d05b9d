"""The streaming query. Spark lists new segments and remembers them. Each part of a list is a batch."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stomprelay.journal.folder import Folder
from stomprelay.journal.segment import CLOSED
from stomprelay.pipeline.follow.arrivals import Arrivals, Part
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.match import messages
from stomprelay.pipeline.read import frames, gaps
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import executors, launch, tasks
from stomprelay.pipeline.store import upkeep
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import Batch, StoreError
from stomprelay.pipeline.store.upkeep import alone, migrate
from stomprelay.pipeline.store.volume import Volume, absolute, literal, local
from stomprelay.pipeline.tables import episodes, rollup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Step = tuple[str, Callable[[Batch], Iterable[str] | None]]
"""The name of a step, and the function that does it. The function may return sentences for the user."""

STEPS: Final[tuple[Step, ...]] = (
    ("traffic", rollup.advance_traffic),
    ("messages", messages.advance),
    ("latency", rollup.LATENCY_SUMS.advance_messages),
    ("flow", rollup.FLOW_SUMS.advance_messages),
    ("stuck", episodes.advance_stuck),
    ("failovers", episodes.advance_failovers),
    ("runs", episodes.advance_runs),
)
"""The steps of each batch after its frames are written, in this order."""
BESIDE: Final = frozenset(name for name, _ in STEPS) - {"messages"}
"""No other step needs the results of these steps. They run at the same time, so that there is work for all cores while
Spark plans, and while the last task of a step runs.
"""

_LOOK: Final = 0.5
"""Seconds after which Spark's progress is read again."""
_RECOVER: Final = 60.0
"""Seconds after which segments that a dead relay left open are looked for again."""


class _Stopped(Exception):
    """Raised in a batch to end the query: the user asked to stop, and the part that was being read is done."""


@dataclass(eq=False, repr=False)
class Stream:
    """One run over a journal: call `once` or `endless`. `_steps`: what a batch does after it has written `frames`."""

    _spark: "SparkSession"
    _settings: Settings
    _progress: ProgressLine
    _steps: tuple[Step, ...] = STEPS

    def __post_init__(self) -> None:
        spark, settings = self._spark, self._settings
        self._volume = Volume(spark)
        self._store = opened(spark, settings.tables, settings.format)
        self._arrivals = Arrivals(self._volume, absolute(settings.checkpoint), settings.bytes_per_batch)
        self._kept_open: set[str] = set()
        self._again = False
        """Whether an earlier run has begun the next batch."""
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._pool = ThreadPoolExecutor(2, "step", self._joined)  # so many steps run at a time
        self._far = not launch.is_local(spark.sparkContext.master)
        """Whether tasks run on other machines."""

    def _joined(self) -> None:
        """Make Java plan the queries of the present thread with this session."""
        jvm: Any = self._spark._jvm
        jvm.SparkSession.setActiveSession(self._spark._jsparkSession)

    def stop(self) -> None:
        """End the run after the current batch. May be called in a signal handler."""
        self._stopping.set()

    def once(self) -> None:
        """Read all segments that are there. Raises `StoreError`, and the errors of the tables and of Spark."""
        with self._prepared():
            self._recover()
            self._follow(self._begun(availableNow=True))
            if not self._stopping.is_set():
                with self._progress.working("joining small files", "hours") as shown:
                    told = upkeep.thorough(self._store, datetime.now(UTC), self._settings.retain, shown)
                for sentence in told:
                    self._progress.say(sentence)

    def endless(self) -> None:
        """Read all present and future segments, until `stop` is called. Raises what `once` raises."""
        with self._prepared():
            self._recover()
            self._follow(self._begun(processingTime=f"{self._settings.interval} seconds"))

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        if not self._volume.exists(absolute(self._settings.journal)):
            raise StoreError(f"there is no journal in {self._settings.journal}: the folder does not exist")
        self._store.check(migrates=True)
        with alone(local(self._store.root)):
            if self._far:
                read = [local(absolute(self._settings.journal))]
                written = [local(self._store.root), local(absolute(self._settings.checkpoint))]
                executors.see(self._spark, filter(None, read), filter(None, written))
            with self._progress.working("migrating the tables", "tables") as shown:
                migrated = migrate(self._store, messages.STATE, shown)
            if migrated:
                self._progress.say("the tables were of the release before: migrated")
            kept = self._store.prepare(self._arrivals.finished, self._settings.keep_headers)
            self._settings = replace(self._settings, keep_headers=kept)
            self._again = upkeep.begin(self._store, self._arrivals.finished)
            with self._pool:
                yield

    def _recover(self) -> None:
        """If the journal is on this machine, close segments that dead relays left open, and show which."""
        place = local(absolute(self._settings.journal))
        if place is None:
            return
        try:
            for done in Folder(place).recover(time.time_ns()):
                if done.failure and done.was.name not in self._kept_open:
                    self._kept_open.add(done.was.name)
                    self._progress.say(f"{done.was.name} was left open, and is not read: {done.failure}")
                elif done.path is not None and not done.failure:
                    cut = f", {done.cut} octets of a torn end cut off" if done.cut else ""
                    self._progress.say(f"{done.path.name} was left open by a relay that is gone: closed{cut}")
        except OSError as error:
            self._progress.say(f"segments left open by dead relays are not read: {error.strerror}")

    def _begun(self, **trigger: Any) -> "StreamingQuery":
        """Start and return the query. The query's rows are not used: `Arrivals` reads the log of the source instead."""
        files = (
            self._spark.readStream.format("binaryFile")
            .schema(frames.FILES)
            .option("pathGlobFilter", f"*{CLOSED}")
            .option("maxFileAge", "36500d")  # for ever
            .load(literal(absolute(self._settings.journal)))
            .select("path", "length")
        )
        return (
            files.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", absolute(self._settings.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def _follow(self, query: "StreamingQuery") -> None:
        """Show the query's progress until it ends. Raises what a batch raised, or Spark's exception."""
        from pyspark.errors import StreamingQueryException

        recovered = time.monotonic()
        ended = False
        while query.isActive:
            if not self._stopping.wait(_LOOK):
                pass
            elif query.status["isTriggerActive"]:
                time.sleep(_LOOK)
            else:
                ended = True
                query.stop()
            self._progress.tick()
            if time.monotonic() - recovered > _RECOVER:
                self._recover()
                recovered = time.monotonic()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            if self._failure is None and not ended:
                raise
        if self._failure is not None and not ended and not isinstance(self._failure, _Stopped):
            raise self._failure

    def _batch(self, _: "DataFrame", number: int) -> None:
        """Read the parts of one of Spark's batches. Spark calls it, in a thread of its own."""
        try:
            self._progress.plan(self._arrivals.waiting(number))
            for part in self._arrivals.parts(number):
                if self._stopping.is_set():
                    raise _Stopped
                self._part(part)
        except BaseException as error:
            self._failure = error
            raise

    def _part(self, part: Part) -> None:
        progress = self._progress
        arrivals = self._arrivals.arrivals(part)
        batch = Batch(self._spark, self._store, part.number, self._settings, part.unread, self._again)
        octets = sum(each.size for each in arrivals)
        progress.begin(part.number, len(arrivals), octets)
        if self._far:
            executors.fit(self._spark)
        before = messages.runs_before(batch)
        fresh, again = gaps.first_of_each(arrivals, before)
        held_back = sum(each.rows for each in before.waiting) * tasks.ROW
        told: list[str] = []
        with tasks.planned(self._spark, octets + held_back):
            count, damages, missing = frames.advance(batch, fresh, again)
            # Delta's store changes settings of the session for a while.
            beside = self._store.format != "delta"
            waiting: list[tuple[str, Future[Iterable[str] | None]]] = []
            for name, advance in self._steps:
                if beside and name in BESIDE:
                    waiting.append((name, self._pool.submit(advance, batch)))
                else:
                    progress.step(name)
                    told += advance(batch) or ()
            for name, future in waiting:
                progress.step(name)
                wait([future])
            for _, future in waiting:  # all steps have ended, even if one has failed
                told += future.result() or ()
        self._arrivals.done(part)
        self._again = False
        progress.end(len(arrivals), count, damages + len(told), [*missing, *told])
        with progress.working("joining small files", "hours") as shown:
            kept = upkeep.after(batch, datetime.now(UTC), shown, partial(messages.first_held_back, batch))
        for sentence in kept:
            progress.say(sentence)
