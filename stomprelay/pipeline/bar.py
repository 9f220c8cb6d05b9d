"""A bar on a terminal: how much is done, how fast, and the time left. It appears after `AFTER` seconds."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER: Final = 2.0
"""Seconds after which a bar is shown."""
OFTEN: Final = 0.5
"""Seconds between two drawings."""
_ROOM: Final = 14
"""Columns that a bar needs. On a narrower terminal only name and figures are shown, cut at the edge."""
_WIDEST: Final = 110
_SIZES: Final = ("B", "KiB", "MiB", "GiB")


class ProgressBar:
    """A line with a name, a bar and the amount done, in `unit`. `octets`: the unit is bytes. Any thread may use it."""

    def __init__(
        self, out: TextIO, unit: str = "", *, octets: bool = False, clock: Callable[[], float] = monotonic
    ) -> None:
        self.live: Final = out.isatty()
        """Whether the output is a terminal. On other output no bar is drawn."""
        self._out = out
        self._unit = unit
        self._octets = octets
        self._clock = clock
        self._lock = RLock()
        self._name = ""
        self._began: float | None = None
        self._first = self._done = self._total = self._share = 0.0
        self._width = 0

    def begin(self, name: str, total: float = 0, done: float = 0) -> None:
        """Begin a bar with this name. `total` is the whole amount, 0 if unknown; `done` is the amount that was done
        before. Raises `ImportError` on a terminal if tqdm is missing.
        """
        if self.live:
            import tqdm  # noqa: F401 - the command line is there without the pipeline's packages
        self._name, self._total, self._share = name, total, 0.0
        self._first = self._done = done
        self._began = self._clock()

    def set(
        self, done: float, total: float | None = None, name: str | None = None, share: float = 0.0
    ) -> None:
        """Set the amount that is done. A `total` or `name` of None changes nothing. `share` is the part of the whole
        time that is over, from 0 to 1. If `share` is 0, `done` divided by the total is used.
        """
        self._done, self._share = done, share
        self._total = self._total if total is None else total
        self._name = self._name if name is None else name

    def draw(self) -> None:
        """Draw the bar, if the output is a terminal and the work has lasted `AFTER` seconds."""
        with self._lock:
            began = self._began
            if not self.live or began is None or self._clock() - began < AFTER:
                return
            line = self._line(self._clock() - began, shutil.get_terminal_size().columns - 1)
            self.wipe()
            self._out.write(line)
            self._out.flush()
            self._width = len(line)

    def wipe(self) -> None:
        """Remove the bar from the screen, so that other lines can be written. The next `draw` shows the bar again."""
        with self._lock:
            if self._width:
                self._out.write(f"\r{' ' * self._width}\r")
                self._out.flush()
                self._width = 0

    def say(self, text: str) -> None:
        """Write a line that stays above the bar."""
        with self._lock:
            self.wipe()
            self._out.write(f"{text}\n")
            self._out.flush()

    def beside(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that removes the bar and then calls `say`, so that the line stays above the bar."""

        def told(text: str) -> None:
            with self._lock:
                self.wipe()
                say(text)

        return told

    def end(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._began = None
            self.wipe()

    @contextmanager
    def going(self, look: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Draw the bar while the context is entered, then remove it. `look` is called before each drawing."""
        over = Event()

        def follow() -> None:
            while not over.wait(OFTEN):
                # A session that ended meanwhile cannot be asked; its user reports the error.
                with suppress(Exception):
                    look()
                self.draw()

        thread = Thread(target=follow, name="bar", daemon=True)
        if self.live:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if self.live:
                thread.join()
            self.end()

    def words(self, elapsed: float) -> str:
        """Return the figures after `elapsed` seconds: `3 of 12 tasks, 1.5/s, 6 s left`."""
        if not self._total:
            return spelled(elapsed)
        text = (
            f"{self._amount(self._done, self._total)} of {self._amount(self._total, self._total, unit=True)}"
        )
        rate = (self._done - self._first) / elapsed if elapsed > 0 else 0
        if rate > 0:
            left = elapsed * (1 / self._share - 1) if self._share else (self._total - self._done) / rate
            pace = octets(rate) if self._octets else f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"
            text += f", {pace}/s, {spelled(max(left, 0))} left"
        return text

    def _amount(self, number: float, like: float, *, unit: bool = False) -> str:
        """Return a number as text; bytes in the unit that fits `like`. With `unit`, the unit is shown, too."""
        if self._octets:
            power = next((n for n in (0, 1, 2) if like < 1024 ** (n + 1)), 3)
            text = f"{number / 1024**power:,.1f}" if power else f"{number:,.0f}"
            return f"{text} {_SIZES[power]}" if unit else text
        return f"{number:,.0f} {self._unit}".rstrip() if unit else f"{number:,.0f}"

    def _line(self, elapsed: float, width: int) -> str:
        from tqdm import tqdm

        words = self.words(elapsed)
        if not self._total or len(self._name) + len(words) + _ROOM > width:
            return f"{self._name}: {words}"[:width]
        plain = not (getattr(self._out, "encoding", None) or "utf-8").lower().startswith("utf")
        form = "{desc}{percentage:3.0f} % |{bar}| " + words
        done = self._total * self._share if self._share else min(self._done, self._total)
        columns = min(width, _WIDEST)
        return str(
            tqdm.format_meter(done, self._total, elapsed, columns, f"{self._name} ", plain, bar_format=form)
        )


class Tasks:
    """Counts the tasks of Spark's jobs that begin from now on. Spark plans more tasks while it runs."""

    def __init__(self, spark: "SparkSession") -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._over: dict[int, int] = dict.fromkeys(self._jobs(), 0)

    def counted(self) -> tuple[int, int]:
        """Return how many tasks are done, and how many are planned in all."""
        done = planned = 0
        for job in self._jobs():
            if job not in self._over:
                found = self._tracker.getJobInfo(job)
                stages = (
                    [] if found is None else [self._tracker.getStageInfo(each) for each in found.stageIds]
                )
                counts = [(one.numCompletedTasks, one.numTasks) for one in stages if one is not None]
                if found is not None and found.status != "RUNNING":
                    # The tasks that were planned and left out need not be done.
                    self._over[job] = sum(finished for finished, _ in counts)
                    continue
                done += sum(finished for finished, _ in counts)
                planned += sum(tasks for _, tasks in counts)
        before = sum(self._over.values())
        return before + done, before + planned

    def _jobs(self) -> list[int]:
        return list(self._tracker.getJobIdsForGroup(None))


@contextmanager
def tasks(out: TextIO, name: str, spark: "SparkSession") -> Iterator[ProgressBar]:
    """Draw a bar of Spark's tasks while the context is entered. The value of the context is the bar."""
    bar = ProgressBar(out, "tasks")
    if not bar.live:
        yield bar
        return
    counting = Tasks(spark)
    bar.begin(name)
    with bar.going(lambda: bar.set(*counting.counted())):
        yield bar


def octets(count: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in _SIZES[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {_SIZES[-1]}"


def many(count: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun: `1 message`, `1,200 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def spelled(seconds: float) -> str:
    """Return a duration as text, in whole seconds or minutes."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"


class Shares:
    """Estimates which part of the time of several steps is over, from 0 to 1. Each step is expected to take as long as
    the last time. `usual` has the seconds that each step is expected to take the first time.
    """

    def __init__(self, usual: Mapping[str, float], clock: Callable[[], float]) -> None:
        self._took = dict(usual)
        self._clock = clock
        self._now: dict[str, float] = {}
        self._step = ""
        self._since = 0.0

    def begin(self) -> None:
        """Forget which steps have ended, because all steps begin again."""
        self._now, self._step = {}, ""

    def step(self, name: str) -> None:
        """Record that a step begins, and that the previous step has ended."""
        self._close()
        self._step, self._since = name, self._clock()

    def end(self) -> None:
        """Record that all steps have ended. From now on `share` expects each step to take as long as it took now."""
        self._close()
        self._took = self._now or self._took

    def share(self, part: float = 0.0) -> float:
        """Return the share of the whole time that is over. `part`: how far the present step is, from 0 to 1."""
        whole = sum(self._took.values())
        if not whole:
            return 0.0
        through = sum(took for name, took in self._took.items() if name in self._now)
        return (through + part * self._took.get(self._step, 0.0)) / whole

    def _close(self) -> None:
        if self._step:
            self._now[self._step] = self._now.get(self._step, 0.0) + self._clock() - self._since
        self._step = ""


class Steps:
    """Shows which of several steps is running. `usual` has the names of the steps in order, with their usual times."""

    def __init__(self, bar: ProgressBar, name: str, usual: Mapping[str, float]) -> None:
        self.bar: Final = bar
        self._name = name
        self._shares = Shares(usual, monotonic)
        self._begun = 0
        bar.begin(name, len(usual))

    def step(self, name: str) -> None:
        """Show that a step begins, and that the previous step has ended."""
        self._shares.step(name)
        self.bar.set(self._begun, name=f"{self._name}, {name}", share=self._shares.share())
        self._begun += 1
