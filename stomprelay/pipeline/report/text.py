"""Numbers, times and names as people read them. Lines do not break inside a quantity."""

import unicodedata
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

Micros = int
"""An instant, in microseconds since 1970, or a duration."""

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

NOTHING: Final = "\u2013"
"""Written in place of a missing number."""

NAME: Final = 120
"""The most characters of a name that are shown."""

_NARROW: Final = "\u202f"
_THOUSANDS: Final = ("", "k", "M", "G", "T", "P")
_OCTETS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONG: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"))
_HIDDEN: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of characters that are invisible or change how the text around them is shown."""


def count(number: int) -> str:
    """Return `1234567` as `1,234,567`."""
    return f"{number:,}"


def short(number: float) -> str:
    """Return a number in at most four characters and a unit: `950`, `1.2 k`, `34 M`."""
    return _scaled(number, 1000, _THOUSANDS)


def octets(number: float) -> str:
    """Return a number of bytes with a unit: `950 B`, `1.2 KiB`, `34 MiB`."""
    return _scaled(number, 1024, _OCTETS)


def _scaled(number: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    # What would be rounded to the base is written in the next unit.
    while power < len(units) - 1 and float(digits(number)) >= base:
        number /= base
        power += 1
    return f"{digits(number)}{_NARROW}{units[power]}" if units[power] else digits(number)


def digits(number: float) -> str:
    """Return a number with two significant digits below 10, else without decimals: `0.012`, `1.2`, `34`, `567`."""
    if number == 0:
        return "0"
    if abs(number) >= 9.95:
        return f"{number:.0f}"
    if abs(number) >= 0.995:
        return f"{number:.1f}".removesuffix(".0")
    text = f"{number:.2g}"
    return text if "e" not in text else f"{number:.6f}".rstrip("0").rstrip(".") or "0"


def duration(micros: float) -> str:
    """Return microseconds as a time span: `340 µs`, `3.4 ms`, `1.2 s`, `2 min 5 s`, `3 h 12 min`, `2 d 3 h`."""
    if micros < 0:  # a clock was set back
        return f"\u2212{duration(-micros)}"
    if micros < 999.5:
        return f"{digits(micros)}{_NARROW}µs"
    if micros < 999.5 * 1000:
        return f"{digits(micros / 1000)}{_NARROW}ms"
    if micros < 59.5 * SECOND:
        return f"{digits(micros / SECOND)}{_NARROW}s"
    for (unit, name), (lower, less) in pairwise(_LONG):
        rest = round(micros / lower)
        if rest * lower >= unit:
            whole, part = divmod(rest, unit // lower)
            head = f"{count(whole)}{_NARROW}{name}"
            return f"{head} {part}{_NARROW}{less}" if part else head
    raise AssertionError("unreachable")  # pragma: no cover


def timed(micros: float | None) -> str:
    """Return microseconds as `duration` does, and `NOTHING` for None."""
    return NOTHING if micros is None else duration(micros)


def ticked(micros: float) -> str:
    """Return microseconds as text for an axis, always in one unit: `100 s`, where `duration` returns `1 min 40 s`."""
    if 59.5 * SECOND <= micros < 9_999.5 * SECOND:
        return f"{micros / SECOND:.0f}{_NARROW}s"
    return duration(micros)


def rate(per_second: float, like: float | None = None) -> str:
    """Return a rate as text. Small rates are given by the minute or by the hour: `1.2 k/s`, `3.4/min`. If `like` is
    given, the unit is chosen for this rate, for example the greatest of several rates.
    """
    measure = per_second if like is None else like
    for seconds, unit in ((1, "s"), (60, "min")):
        if measure == 0 or measure * seconds >= 0.095:
            return f"{short(per_second * seconds)}/{unit}"
    return f"{short(per_second * 3600)}/h"


def percent(part: int, whole: int) -> str:
    """Return a share as text. `0 %` means none, and `100 %` means all. `NOTHING` is returned if `whole` is 0."""
    if whole == 0:
        return NOTHING
    share = 100 * part / whole
    if 0 < share < 0.1:
        return f"<0.1{_NARROW}%"
    if 99.9 < share < 100:
        return f">99.9{_NARROW}%"
    if share in {0, 100}:
        return f"{share:.0f}{_NARROW}%"
    return f"{share:.1f}{_NARROW}%"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 failover`, `2 failovers`. `many`: the plural, if it is irregular."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def css_share(share: float) -> str:
    """Return a share from 0 to 1 as a percentage for CSS."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def css_string(text: str) -> str:
    """Return text as a string of CSS for a `style` element. All characters that could end the string are escaped."""
    safe = (
        sign if sign.isascii() and (sign.isalnum() or sign in " -_.") else f"\\{ord(sign):x} "
        for sign in text
    )
    return f'"{"".join(safe)}"'


def tenth(value: float) -> str:
    """Return a coordinate as text, rounded to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def visible(name: str, limit: int = NAME) -> str:
    """Return a name that a client chose as text that is safe to look at. The caller must still escape the text for
    HTML. Invisible characters, and characters that change the direction of text, become text such as `⟨U+202E⟩`. The
    middle of a name longer than `limit` is left out.
    """
    if len(name) > limit:
        kept = (limit - 1) // 2
        name = f"{name[:kept]}…{name[-kept:]}"
    signs = (f"⟨U+{ord(each):04X}⟩" if unicodedata.category(each) in _HIDDEN else each for each in name)
    return "".join(signs) or "(empty)"


def moment(at: Micros) -> datetime:
    """Return an instant as a date and time in UTC."""
    return datetime.fromtimestamp(at / SECOND, UTC)


def iso(at: Micros) -> str:
    """Return an instant for machines, to the millisecond: `2026-11-21T08:12:00.000Z`."""
    return moment(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(at: Micros, form: str) -> str:
    """Return an instant in UTC as text. `form` names what is shown; the page's script uses the same names:
    `day` 21 Nov, `hour` 08:12, `second` 08:12:05, `both` 21 Nov 08:12, `stamp` 21 Nov 2026, 08:12, `full` 21
    Nov 2026, 08:12:05.
    """
    when = moment(at)
    day = f"{when.day} {when:%b}"
    return {
        "day": day,
        "hour": f"{when:%H:%M}",
        "second": f"{when:%H:%M:%S}",
        "both": f"{day} {when:%H:%M}",
        "stamp": f"{day} {when.year}, {when:%H:%M}",
        "full": f"{day} {when.year}, {when:%H:%M:%S}",
    }[form]
