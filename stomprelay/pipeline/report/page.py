"""The page as a whole: one HTML file that needs nothing else.

Charts are SVG and CSS made here, not by a plotting library in the page: the file stays below half a megabyte instead
of five, shows without JavaScript, prints, follows the reader's colour scheme, and its Content-Security-Policy lets
nothing run but our own script (by its digest) and nothing be fetched, whatever clients and destinations are called.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stomprelay import __version__
from stomprelay.pipeline.report import outages, outcomes, rankings, text, timeseries
from stomprelay.pipeline.report.figure import Figure, Palette
from stomprelay.pipeline.report.findings import NOTHING, Findings, Span
from stomprelay.pipeline.report.highlights import compared, highlights
from stomprelay.pipeline.report.indicators import INDICATORS, Indicator, Kind, Threshold, change
from stomprelay.pipeline.report.markup import join, name, when

TITLE = "What passed the relay"


@dataclass(frozen=True)
class Number:
    """One number of the headline. `tone`: `good`, `bad` or empty; `detail` tells the same in words. `target`:
    the key of the figure with more.
    """

    label: str
    value: str
    unit: str
    detail: str
    target: str
    tone: str = ""
    before: str = ""


_COMPARED: Final = ("messages", "delivered", "unconfirmed", "delivery_p99", "outages", "stuck", "errors")
"""The indicator behind each number."""


def headline(findings: Findings) -> list[Number]:
    """Return the numbers at the top of the page, in their order."""
    numbers = [
        _messages(findings),
        _delivered(findings),
        _lost(findings),
        _latency(findings),
        *_trouble(findings),
    ]
    return [
        replace(number, before=_before(findings, INDICATORS[which]))
        for number, which in zip(numbers, _COMPARED, strict=True)
    ]


def _before(findings: Findings, indicator: Indicator) -> str:
    earlier, before = findings.earlier, findings.before
    then = None if before is None else indicator.of(before)
    if earlier is None or then is None:
        return ""
    spelled = text.short(then) if indicator.kind is Kind.COUNT else indicator.kind.spell(then)
    return f"{earlier.period} before: {spelled}, {change(indicator.of(findings), then, indicator.kind)}"


def _number(label: str, said: str, detail: str, target: str, tone: str = "") -> Number:
    value, _, unit = said.partition("\u202f")
    return Number(label, value, unit, detail, target, tone)


def _messages(findings: Findings) -> Number:
    span = findings.span
    average = findings.messages * text.SECOND / (span.until - span.since)
    detail = f"{text.rate(average)} on average, {text.octets(findings.octets)} on the wire"
    return _number("Messages", text.short(findings.messages), detail, "traffic")


def _delivered(findings: Findings) -> Number:
    detail = f"{text.count(findings.reached)} reached a consumer"
    if findings.redelivered:
        detail += f", {text.count(findings.redelivered)} times again"
    return _number("Delivered", text.percent(findings.reached, findings.expected), detail, "outcomes")


def _lost(findings: Findings) -> Number:
    lost = findings.outcomes.get("unconfirmed", 0)
    waiting = findings.outcomes.get("undelivered", 0)
    detail = "neither delivered nor confirmed"
    if waiting:
        detail += f"; {text.short(waiting)} more not delivered yet"
    if findings.dropped:
        detail += f"; {text.count(findings.dropped)} frames were not recorded at all"
    tone = "" if not findings.messages else "bad" if lost or findings.dropped else "good"
    return _number("Lost or unconfirmed", text.short(lost), detail, "outcomes", tone)


def _latency(findings: Findings) -> Number:
    found = findings.latencies.get("delivery")
    whole = NOTHING if found is None else found.whole
    if whole.p99 is None or whole.p50 is None:
        return _number("Latency, p99", text.NOTHING, "no delivery was timed", "latency")
    detail = f"SEND to MESSAGE; the median is {text.duration(whole.p50)}"
    return _number("Latency, p99", text.duration(whole.p99), detail, "latency")


def _trouble(findings: Findings) -> list[Number]:
    silence = max((one.silence_longest or 0 for one in findings.failovers), default=0)
    resent = sum(one.resent for one in findings.failovers)
    if silence:
        detail = f"longest silence {text.duration(silence)}, {text.plural(resent, 'frame')} sent again"
    else:
        detail = "no session was without its broker"
    still = sum(one.still for one in findings.stuck)
    wait = max((one.worst for one in findings.stuck), default=0)
    stuck = (
        f"longest wait {text.duration(wait)}; {still or 'none'} {'waits' if still == 1 else 'wait'} still"
        if wait
        else "all answered in time"
    )
    errors = sum(findings.errors)
    kinds = findings.total_troubles
    said = f"of {text.plural(kinds, 'kind')}" if kinds else "from brokers and the relay"
    return [
        _number(
            "Failovers",
            text.short(len(findings.failovers)),
            detail,
            "failovers",
            "bad" if findings.lost else "",
        ),
        _number("Stuck consumers", text.short(findings.total_stuck), stuck, "stuck", "bad" if still else ""),
        _number("Errors", text.short(errors), said, "errors", "bad" if errors else ""),
    ]


@dataclass(frozen=True)
class PageOptions:
    """Options of the page. `made`: when it was made, in microseconds since 1970. `local`: show times in the
    reader's time zone at first; a button changes it. `thresholds`: those crossed are named first.
    """

    made: text.Micros
    title: str = TITLE
    local: bool = False
    thresholds: Sequence[Threshold] = ()


def page(findings: Findings, options: PageOptions) -> str:
    """Return the whole HTML file as text."""
    environment = Environment(
        loader=PackageLoader("stomprelay.pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    script = _file("report.js")
    quarantine = rankings.quarantine(findings)
    shown = [] if findings.empty else figures(findings)
    shown += [quarantine] if quarantine else []
    span = findings.span
    return environment.get_template("report.html").render(
        title=text.visible(options.title),
        style=Markup(_file("report.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        local=options.local,
        range=extent(span),
        length=text.duration(span.until - span.since),
        relays=[name(relay) for relay in findings.relays],
        empty=findings.empty,
        quarantine=quarantine,
        numbers=[] if findings.empty else headline(findings),
        highlights=highlights(findings, options.thresholds),
        kept=[one.spelled for one in options.thresholds if one.crossed(findings) is False],
        figures=shown,
        labels=Markup("".join(figure.labels for figure in shown)),
        titles={figure.key: figure.title for figure in shown},
        version=__version__,
        made=when(options.made, "full"),
    )


def figures(findings: Findings) -> list[Figure]:
    """Return all charts and lists, in their order."""
    palette = Palette(series.name for series in findings.series)
    bands = outages.bands(findings)
    before, runs = compared(findings), outages.runs(findings)
    return [
        *([before] if before else []),
        timeseries.traffic(findings, palette, bands),
        timeseries.latency(findings, bands),
        outages.failovers(findings),
        outages.stuck(findings, bands),
        outcomes.outcomes(findings),
        outcomes.flow(findings, palette),
        rankings.destinations(findings, palette),
        rankings.clients(findings),
        timeseries.errors(findings, bands),
        *([runs] if runs else []),
    ]


def extent(span: Span) -> Markup:
    """Return the range of time as HTML: its begin and its end."""
    same = text.clock(span.since, "day") == text.clock(span.until - 1, "day")
    short, long = ("second", "full") if span.step < text.MINUTE else ("hour", "stamp")
    return join(
        when(span.since, long),
        " \u2013 ",
        when(span.until, short if same and span.until % text.DAY else long),
    )


def _file(which: str) -> str:
    return resources.files("stomprelay.pipeline.report").joinpath(which).read_text(encoding="utf-8")
