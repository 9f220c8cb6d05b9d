"""What a user sees of a replay: one line that changes on a terminal, a line now and then elsewhere."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from typing import Final, TextIO, TypeVar

T = TypeVar("T")

OFTEN: Final = 0.5
"""Seconds between two updates of the line on a terminal."""
SELDOM: Final = 10.0
"""Seconds between two lines where there is no terminal."""
_PARTING: Final = 10.0
"""Seconds that the work has to end after an interrupt."""


class Watch:
    """Shows how many of `total` messages are confirmed. `confirmed`: returns that number; `before`: how many
    an earlier run sent.
    """

    def __init__(
        self,
        out: TextIO,
        total: int,
        before: int,
        confirmed: Callable[[], int],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._out = out
        self._live = out.isatty()
        self._total = total
        self._before = before
        self._confirmed = confirmed
        self._clock = clock
        self._began = self._shown = clock()
        self._width = 0

    def follow(self, work: Callable[[], T]) -> T:
        """Do `work` in another thread and show the progress. Return what it returns, or raise what it raises.
        This thread gets the KeyboardInterrupt; within a call to Java it would be reported as a failure of
        that call.
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
            self._wipe()
        return outcome.result()

    def tick(self) -> None:
        """Show the progress, if it is time for it."""
        now = self._clock()
        if not self._live and now - self._shown < SELDOM:
            return
        self._shown = now
        line = self.line()
        if self._live:
            self._wipe()
            self._out.write(line)
            self._width = len(line)
        else:
            self._out.write(f"{line}\n")
        self._out.flush()

    def line(self) -> str:
        """Return the progress as a line of text."""
        confirmed = self._confirmed()
        took = self._clock() - self._began
        text = f"{confirmed:,} of {self._total:,} messages confirmed"
        rate = (confirmed - self._before) / took if took > 0 else 0.0
        if rate > 0:
            text += f", {rate:,.0f}/s, {_spelled((self._total - confirmed) / rate)} left"
        return text

    def _wipe(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0


def _spelled(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h {whole % 3600 // 60} min"
