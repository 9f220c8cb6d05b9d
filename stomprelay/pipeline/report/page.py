"""The page as a whole: one HTML file that needs nothing else.

Charts are SVG and CSS made here, not by a plotting library in the page: the file stays below half a megabyte instead
of five, shows without JavaScript, prints, follows the reader's colour scheme, and its Content-Security-Policy lets
nothing run but our own script (by its digest) and nothing be fetched, whatever clients and destinations are called.
"""

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stomprelay import __version__
from stomprelay.pipeline.report import delays, outages, outcomes, rankings, rates, text
from stomprelay.pipeline.report.figure import Figure
from stomprelay.pipeline.report.findings import Findings
from stomprelay.pipeline.report.headline import headline
from stomprelay.pipeline.report.markup import join, name, when
from stomprelay.pipeline.report.palette import Palette
from stomprelay.pipeline.report.span import Span

TITLE = "What passed the relay"


@dataclass(frozen=True)
class Wishes:
    """How the page shall be. `local`: times in the reader's own zone from the start (a button changes it). `made`:
    now.
    """

    made: text.Micros
    title: str = TITLE
    local: bool = False


def page(findings: Findings, wishes: Wishes) -> str:
    """The whole file."""
    environment = Environment(
        loader=PackageLoader("stomprelay.pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    script = _file("report.js")
    quarantine = rankings.quarantine(findings)
    shown = [] if findings.empty else figures(findings)
    span = findings.span
    return environment.get_template("report.html").render(
        title=text.visible(wishes.title),
        style=Markup(_file("report.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        local=wishes.local,
        range=extent(span),
        length=text.duration(span.until - span.since),
        relays=[name(relay) for relay in findings.relays],
        empty=findings.empty,
        quarantine=quarantine,
        numbers=[] if findings.empty else headline(findings),
        figures=[*shown, *([quarantine] if quarantine else [])],
        version=__version__,
        made=when(wishes.made, "full"),
    )


def figures(findings: Findings) -> list[Figure]:
    """All charts and lists, in their order."""
    palette = Palette(series.name for series in findings.series)
    bands = outages.bands(findings)
    return [
        rates.traffic(findings, palette, bands),
        delays.latency(findings, bands),
        outages.failovers(findings),
        outages.stuck(findings, bands),
        outcomes.outcomes(findings),
        outcomes.flow(findings, palette),
        rankings.destinations(findings, palette),
        rankings.clients(findings),
        rates.errors(findings, bands),
    ]


def extent(span: Span) -> Markup:
    """From when to when."""
    same = text.clock(span.since, "day") == text.clock(span.until - 1, "day")
    short, long = ("second", "full") if span.step < text.MINUTE else ("hour", "stamp")
    return join(
        when(span.since, long),
        " \u2013 ",
        when(span.until, short if same and span.until % text.DAY else long),
    )


def _file(which: str) -> str:
    return resources.files("stomprelay.pipeline.report").joinpath(which).read_text(encoding="utf-8")
