"""The indicators of a report: their names and spelling, thresholds for them, and how they changed."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.findings import MEASURES, UNHEARD, Findings, silence

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([a-zµμ%]*)", re.IGNORECASE)
PERIODS: Final = {"day": text.DAY, "week": 7 * text.DAY}
"""The periods after which a range can be compared, in microseconds."""
_MANY: Final = 10
"""If a figure is more than this many times its value before, the change is written as a factor, not in percent."""

DROPPED: Final = "dropped"
"""The name of the indicator of dropped frames. No other indicator counts dropped frames."""
_ABOUT: Final = 0.5
"""If a figure changed by less than this percentage, the report says "about the same"."""
_WORTH: Final = 1.5
"""A change by more than this factor, up or down, has its own sentence."""


class IndicatorKind(Enum):
    """A kind of indicator: how its values are written. Shares are from 0 to 1, times are in µs, sizes in bytes."""

    COUNT = "a number, such as 10"
    SHARE = "a share, such as 99.5%"
    TIME = "a time with its unit, such as 200ms"
    SIZE = "a number of bytes, such as 64m"

    def spell(self, value: float) -> str:
        """Return a value as people read it."""
        if self is IndicatorKind.SHARE:
            # Rounded down: 99.96 % is not 100 %.
            return f"{math.floor(value * 1000 + 1e-6) / 10:g}\u202f%"
        if self is IndicatorKind.TIME and value:
            return text.duration(value)
        return text.octets(value) if self is IndicatorKind.SIZE else text.count(math.ceil(value))

    def read(self, said: str) -> float:
        """Return the value that a user wrote in an option. Raises `ValueError`."""
        found = _AMOUNT.fullmatch(said.strip())
        units = _UNITS[self]
        unit = "" if found is None else found[2].lower()
        if found is None or unit not in units:
            raise ValueError(f"{said!r} is not {self.value}")
        return float(found[1]) * units[unit]


_UNITS: Final[Mapping[IndicatorKind, Mapping[str, float]]] = {
    IndicatorKind.COUNT: {"": 1},
    IndicatorKind.SHARE: {"%": 0.01},
    IndicatorKind.TIME: {
        **dict.fromkeys(("us", "µs", "μs"), 1),
        "ms": 1000,
        "s": text.SECOND,
        **dict.fromkeys(("m", "min"), text.MINUTE),
        "h": text.HOUR,
    },
    IndicatorKind.SIZE: {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30},
}
_LEAST: Final = {IndicatorKind.COUNT: 20, IndicatorKind.TIME: 10_000, IndicatorKind.SIZE: 1 << 20}
"""For each kind the least value that matters. Between smaller values a change has no sentence. Times are in µs."""


@dataclass(frozen=True)
class Indicator:
    """A figure with a `name`. `about` says what it is. `target` is the section of the page with details. `of` returns
    the value for findings, or None if there is nothing to measure. `least`: a threshold is a minimum, not a maximum.
    """

    name: str
    about: str
    kind: IndicatorKind
    target: str
    of: Callable[[Findings], float | None]
    least: bool = False

    def spell(self, value: float | None) -> str:
        """Return a value as people read it, `text.NOTHING` for None."""
        return text.NOTHING if value is None else self.kind.spell(value)


def _outcome(*outcomes: str) -> Callable[[Findings], float | None]:
    return lambda findings: sum(findings.outcomes.get(outcome, 0) for outcome in outcomes)


def _percentile(measure: str, which: str) -> Callable[[Findings], float | None]:
    def of(findings: Findings) -> float | None:
        found = findings.latencies.get(measure)
        return None if found is None else getattr(found.whole, which)

    return of


_WHOLE: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "max": "longest"}
_SPELLED: Final = {"receipt": "SEND to RECEIPT", "delivery": "SEND to MESSAGE", "ack": "MESSAGE to ACK"}

_COUNT, _SHARE, _TIME, _SIZE = IndicatorKind
_ALL: Final = (
    Indicator("messages", "messages", _COUNT, "traffic", lambda found: found.messages, least=True),
    Indicator("octets", "bytes on the wire", _SIZE, "traffic", lambda found: found.octets),
    Indicator(
        "delivered",
        "messages that reached a consumer",
        _SHARE,
        "outcomes",
        lambda found: found.reached / found.expected if found.expected else None,
        least=True,
    ),
    Indicator(
        "unconfirmed", "messages neither delivered nor confirmed", _COUNT, "outcomes", _outcome("unconfirmed")
    ),
    Indicator("undelivered", "messages not delivered yet", _COUNT, "outcomes", _outcome("undelivered")),
    Indicator(UNHEARD, "messages to topics that nobody got", _COUNT, "outcomes", _outcome(UNHEARD)),
    Indicator("redelivered", "deliveries made again", _COUNT, "outcomes", lambda found: found.redelivered),
    *(
        Indicator(
            f"{measure}_{which}",
            f"{_SPELLED[measure]}, {'the longest' if which == 'max' else which}",
            _TIME,
            "latency",
            _percentile(measure, field),
        )
        for measure in MEASURES
        for which, field in _WHOLE.items()
    ),
    Indicator(
        "outages",
        "outages of brokers that nobody asked for",
        _COUNT,
        "failovers",
        lambda found: len(found.lost),
    ),
    Indicator(
        "silence",
        "longest time that a session was without a broker",
        _TIME,
        "failovers",
        lambda found: silence(found.failovers),
    ),
    Indicator(
        "stuck",
        "subscriptions that left deliveries unanswered",
        _COUNT,
        "stuck",
        lambda found: found.total_stuck,
    ),
    Indicator(
        "stuck_wait",
        "longest wait of a delivery for its answer",
        _TIME,
        "stuck",
        lambda found: max((one.worst for one in found.stuck), default=0),
    ),
    Indicator("errors", "errors of brokers and the relay", _COUNT, "errors", lambda found: sum(found.errors)),
    Indicator(
        "damages",
        "stretches of the journal that are unreadable or missing",
        _COUNT,
        "quarantine",
        lambda found: found.total_damages,
    ),
    Indicator(DROPPED, "frames that the journal dropped", _COUNT, "quarantine", lambda found: found.dropped),
    Indicator("killed", "relays that were killed", _COUNT, "runs", lambda found: found.killed),
)
INDICATORS: Final = {one.name: one for one in _ALL}
"""All indicators by name, in the order of the page."""
COMPARED: Final = tuple(
    one
    for one in _ALL
    if one.name not in ("damages", DROPPED, "killed") and not one.name.endswith(("_p95", "_max"))
)
"""The indicators that are compared: all except damages, dropped frames, killed relays, p95 values and maxima."""


Compared = list[tuple[Indicator, float | None, float | None]]
"""Indicators, each with its value now and its value in the range before."""


def compared(now: Findings, before: Findings) -> Compared:
    """Return the compared indicators. Indicators that have no value, or the value 0, in both ranges are left out."""
    values = [(one, one.of(now), one.of(before)) for one in COMPARED]
    return [(one, here, then) for one, here, then in values if here or then]


def notable(now: Findings, before: Findings) -> Compared:
    """Return the indicators whose change is worth a sentence. Indicators that were 0 before are left out."""
    return [
        (one, here, then)
        for one, here, then in compared(now, before)
        if here is not None and then and _matters(one.kind, *sorted((here, then)))
    ]


def _matters(kind: IndicatorKind, low: float, high: float) -> bool:
    if kind is IndicatorKind.SHARE:
        return high - low >= 0.01
    return high >= _LEAST[kind] and high > _WORTH * low


@dataclass(frozen=True)
class Threshold:
    """The bound of an indicator: a maximum, or a minimum if `Indicator.least`."""

    indicator: Indicator
    limit: float

    @property
    def spelled(self) -> str:
        """Return the indicator's name and the bound."""
        one = self.indicator
        return f"{one.name} ({'at least' if one.least else 'at most'} {one.kind.spell(self.limit)})"

    def crossed(self, findings: Findings) -> bool | None:
        """Return whether the indicator is beyond the bound; None if there is nothing to measure."""
        value = self.indicator.of(findings)
        if value is None:
            return None
        return value < self.limit if self.indicator.least else value > self.limit

    def sentence(self, findings: Findings) -> str:
        """Return a comparison of the value with the bound, in words, without the indicator's name."""
        one, value = self.indicator, self.indicator.of(findings)
        if value is None:
            return "there was nothing to measure"
        side = ("below" if one.least else "above") if self.crossed(findings) else "within"
        return f"{one.kind.spell(value)}, {side} the threshold of {one.kind.spell(self.limit)}"


def threshold(said: str) -> Threshold:
    """Return the threshold that an option `NAME=VALUE` sets. Raises `ValueError` with a sentence for the user."""
    name, sign, value = (part.strip() for part in said.partition("="))
    one = INDICATORS.get(name)
    if one is None:
        near = get_close_matches(name, INDICATORS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(INDICATORS)}"
        raise ValueError(f"{name or said!r} has no threshold: {hint}")
    if not sign:
        raise ValueError(f"{said!r} has no value: say {name}=VALUE, {one.kind.value}")
    try:
        return Threshold(one, one.kind.read(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def judged(thresholds: Sequence[Threshold]) -> Sequence[Threshold]:
    """Return these thresholds. If there are some but none is for `DROPPED`, add a threshold that allows no dropped
    frames. Otherwise a figure could be good only because frames are missing.
    """
    if not thresholds or any(one.indicator.name == DROPPED for one in thresholds):
        return thresholds
    return [*thresholds, Threshold(INDICATORS[DROPPED], 0)]


def change(now: float | None, before: float | None, kind: IndicatorKind = IndicatorKind.COUNT) -> str:
    """Return how a figure changed: `+12 %`, `12 times as much`, `+0.5 points`; `text.NOTHING` if not known."""
    if now is None or before is None:
        return text.NOTHING
    if kind.spell(now) == kind.spell(before):
        return "the same"
    if kind is IndicatorKind.SHARE:
        return f"{_signed(100 * (now - before))} points"
    if before == 0:
        return "none before"
    if now == 0:
        return "none now"
    if now > _MANY * before:
        return f"{text.digits(now / before)} times as much"
    percent = 100 * (now / before - 1)
    return "about the same" if abs(percent) < _ABOUT else f"{_signed(percent)}\u202f%"


def _signed(number: float) -> str:
    return ("+" if number > 0 else "\u2212") + text.digits(abs(number))
