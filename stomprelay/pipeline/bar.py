"""A bar on a terminal: how much is done, how fast, and the time left. tqdm draws it, after `AFTER` seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import Any, Final, TextIO

AFTER: Final = 2.0
"""Seconds after which a bar is shown."""
OFTEN: Final = 0.5
"""Seconds between two drawings."""
_UNKNOWN: Final = "{desc}: {elapsed}"
_SIZES: Final = ("B", "KiB", "MiB", "GiB")


class ProgressBar:
    """A line with a name, a bar and the amount done, in `unit`. `octets`: the unit is bytes. Any thread may use it."""

    def __init__(self, out: TextIO, unit: str = "", *, octets: bool = False) -> None:
        self.live: Final = out.isatty()
        """Whether the output is a terminal. On other output no bar is drawn."""
        self._out = out
        self._scale = (
            {"unit": "B", "unit_scale": True, "unit_divisor": 1024} if octets else {"unit": f" {unit}"}
        )
        self._lock = RLock()
        self._bar: Any = None

    def begin(self, name: str, total: float = 0, done: float = 0) -> None:
        """Begin a bar with this name. `total` is the whole amount, 0 if unknown; `done` is the amount that was done
        before. Raises `ImportError` on a terminal if tqdm is missing.
        """
        self.end()
        if self.live:
            # The command line is there without the pipeline's packages.
            from tqdm import tqdm

            tqdm.monitor_interval = 0  # no thread of its own
            self._bar = tqdm(
                desc=name, total=total or None, initial=done, file=self._out, leave=False, delay=AFTER,
                dynamic_ncols=True, position=0, bar_format=None if total else _UNKNOWN, **self._scale,
            )  # fmt: skip

    def set(self, done: float, total: float | None = None, name: str | None = None) -> None:
        """Set the amount that is done. A `total` or `name` of None changes nothing."""
        with self._lock:
            if self._bar is not None:
                self._bar.n = done
                if total:
                    self._bar.total, self._bar.bar_format = total, None
                if name is not None:
                    self._bar.set_description(name, refresh=False)

    def draw(self) -> None:
        """Draw the bar, if the output is a terminal and the work has lasted `AFTER` seconds."""
        with self._lock:
            if self._bar is not None and self._bar.format_dict["elapsed"] >= AFTER:
                self._bar.refresh()

    def wipe(self) -> None:
        """Remove the bar from the screen, so that other lines can be written. The next `draw` shows the bar again."""
        with self._lock:
            if self._bar is not None and self._bar.format_dict["elapsed"] >= AFTER:
                self._bar.clear()

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
            if self._bar is not None:
                self.wipe()
                self._bar.close()
                self._bar = None

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
