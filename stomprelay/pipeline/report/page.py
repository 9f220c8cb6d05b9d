"""The page as a whole: one HTML file that needs nothing else, made from templates.

Charts are SVG and CSS made here, not by a plotting library in the page. So the file stays below half a megabyte instead
of five, needs no JavaScript, can be printed, and follows the reader's colour scheme. Its Content-Security-Policy lets
only our own script run (by its digest), and lets nothing be fetched. So names of clients and destinations can do no
harm.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stomprelay import __version__
from stomprelay.pipeline.report import indicators, plot, text
from stomprelay.pipeline.report.findings import (
    MEANING,
    ClientFigures,
    Destination,
    Findings,
    Name,
    Span,
    seen,
    silence,
)
from stomprelay.pipeline.report.indicators import INDICATORS, Threshold

TITLE = "What passed the relay"
COLOURS: Final = 6
"""How many destinations have a colour of their own. More colours would look too much alike."""
_SECTIONS: Final = {
    "traffic": "Traffic",
    "latency": "Latency",
    "failovers": "Failovers",
    "stuck": "Stuck consumers",
    "outcomes": "What became of the messages",
    "flow": "Who sends what to whom",
    "destinations": "Destinations",
    "clients": "Clients",
    "errors": "Errors",
}
"""The sections that every page has, and their titles. Each section is a macro of `sections.html`."""
_MEASURES: Final = {
    "receipt": ("Until confirmed", "SEND to RECEIPT"),
    "delivery": ("Until delivered", "SEND to MESSAGE"),
    "ack": ("Until acknowledged", "MESSAGE to ACK"),
}


@dataclass(frozen=True)
class PageOptions:
    """Options of the page. `made`: when the page was made, in microseconds since 1970. `local`: at first times are
    shown in the reader's zone. A button of the page changes the zone. `thresholds`: the page names crossed thresholds
    first.
    """

    made: text.Micros
    title: str = TITLE
    local: bool = False
    thresholds: Sequence[Threshold] = ()


def page(findings: Findings, options: PageOptions) -> str:
    """Return the whole HTML file as text."""
    script = _file("report.js")
    span, thresholds = findings.span, options.thresholds
    return (
        environment()
        .get_template("report.html")
        .render(
            bands=plot.bands_of(findings),
            before=findings.before,
            colours=palette(series.name for series in findings.series),
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            earlier=findings.earlier,
            forms=_forms(span),
            found=findings,
            kept=[one.spelled for one in thresholds if one.crossed(findings) is False],
            labels=[],
            local=options.local,
            made=options.made,
            script=Markup(script),
            span=span,
            style=Markup(_file("report.css")),
            thresholds=thresholds,
            title=text.visible(options.title),
            titles=titles(findings),
            version=__version__,
        )
    )


@cache
def environment() -> Environment:
    """Return what makes pages of templates: the elements of `parts.html`, with all that they call."""
    made = Environment(
        loader=PackageLoader("stomprelay.pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"meaning": MEANING.get, **{each.__name__: each for each in _FILTERS}}
    made.globals |= {
        "compared_figures": indicators.compared,
        "indicators": INDICATORS,
        "meaning": MEANING,
        "measures": _MEASURES,
        "nothing": text.NOTHING,
        **{each.__name__: each for each in _FUNCTIONS},
    }
    return made


def titles(findings: Findings) -> dict[str, str]:
    """Return the sections of the page in their order, with their titles."""
    found = {} if findings.empty else dict(_SECTIONS)
    if found and findings.earlier is not None:
        found = {"compared": f"Compared with the {findings.earlier.period} before", **found}
    if found and findings.compared:
        found["moves"] = "Moves"
    if found and findings.runs:
        found["runs"] = "Relays"
    if findings.total_damages:
        found["quarantine"] = "Quarantine"
    return found


def palette(names: Iterable[Name]) -> Mapping[Name, str]:
    """Return the CSS classes `c1` to `c6` of the first names. Other names have `c0`."""
    named = [name for name in dict.fromkeys(names) if isinstance(name, str)]
    return {name: f"c{rank}" for rank, name in enumerate(named[:COLOURS], 1)}


def colour(name: Name, colours: Mapping[Name, str]) -> str:
    """Return the CSS class of a destination's colour."""
    return colours.get(name, "c0")


def _forms(span: Span) -> tuple[str, str]:
    """Return the forms in which the begin and the end of the range are shown, see `text.clock`. The end has no date if
    the begin is on the same day.
    """
    same = text.clock(span.since, "day") == text.clock(span.until - 1, "day") and span.until % text.DAY
    short, long = ("second", "full") if span.step < text.MINUTE else ("hour", "stamp")
    return long, short if same else long


def css_labels(which: str, heads: Sequence[str]) -> Markup:
    """Return CSS that shows the column's heading before each cell of the table in the element with the id `which`."""
    return Markup("").join(
        Markup(f"#{which} td:nth-child({place}):before{{content:{text.css_string(head)}}}")
        for place, head in enumerate(heads[1:], 2)
    )


def band_kinds(bands: Sequence[plot.TimeBand]) -> dict[str, str]:
    """Return the kinds of these bands, each with its title, for a legend."""
    return {band.kind: band.title for band in bands}


def bold(said: str) -> Markup:
    """Return text in bold."""
    return Markup("<b>{}</b>").format(said)


def capital(said: str) -> str:
    """Return text with a capital as its first letter."""
    return said[0].upper() + said[1:]


def passed(known: Sequence[Destination | ClientFigures], name: str) -> int:
    """Return how many messages the destination or client of this name has; 0 if it is not in the list."""
    return next((one.passed for one in known if one.name == name), 0)


def per_second(values: Sequence[float], span: Span) -> list[float]:
    """Return rates per second. `values` are counts, one for each bin."""
    return [value / span.seconds for value in values]


def _file(which: str) -> str:
    return resources.files("stomprelay.pipeline.report").joinpath(which).read_text(encoding="utf-8")


_FILTERS: Final = (
    *(text.clock, text.count, text.css_share, text.duration, text.iso, text.octets, text.percent),
    *(text.plural, text.rate, text.short, text.tenth, text.ticked, text.timed, text.visible),
    *(capital, colour, passed, per_second, plot.spark, seen, silence),
)
_FUNCTIONS: Final = (
    *(plot.outages, plot.waits),
    *(plot.fitting, plot.linear, plot.meanwhile, plot.percentile_paths, plot.stack, plot.totals, plot.y),
    *(band_kinds, bold, css_labels, indicators.change, indicators.notable),
    *(text.count, text.timed),
)
"""The functions that templates call."""
