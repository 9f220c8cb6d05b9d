"""What a user sees of a replay: a bar on a terminal, a line now and then elsewhere."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from typing import Final, TextIO, TypeVar

from stomprelay.pipeline.bar import Bar, spelled

T = TypeVar("T")

OFTEN: Final = 0.5
"""Seconds between two looks, after each of which the bar on a terminal is drawn anew."""
SELDOM: Final = 10.0
"""Seconds between two lines where there is no terminal."""
_PARTING: Final = 10.0
"""Seconds that the work has to end after an interrupt."""


class Watch:
    """Shows how many of `total` messages are `confirmed` (called to know it), of which `before` are old."""

    def __init__(
        self,
        out: TextIO,
        total: int,
        before: int,
        confirmed: Callable[[], int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._out = out
        self._total = total
        self._before = before
        self._confirmed = confirmed
        self._clock = clock
        self._began = self._shown = clock()
        self._bar = Bar(out, "messages", clock=clock)
        self._bar.begin("replay", total, before)

    def follow(self, work: Callable[[], T]) -> T:
        """Do `work` in another thread and show the progress; return or raise what it does. An interrupt comes to this
        thread: within a call to Java it would look like a failure of that call.
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
        """Show the progress, if it is time for it."""
        if self._bar.live:
            self._bar.set(self._confirmed())
            self._bar.draw()
            return
        now = self._clock()
        if now - self._shown >= SELDOM:
            self._shown = now
            self._out.write(f"{self.line()}\n")
            self._out.flush()

    def line(self) -> str:
        """Return the progress as a line of text."""
        confirmed = self._confirmed()
        took = self._clock() - self._began
        text = f"{confirmed:,} of {self._total:,} messages confirmed"
        rate = (confirmed - self._before) / took if took > 0 else 0.0
        if rate > 0:
            text += f", {rate:,.0f}/s, {spelled((self._total - confirmed) / rate)} left"
        return text
