"""The lists of destinations, of clients, and of what could not be read."""

from collections.abc import Sequence

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Palette, swatch
from stomprelay.pipeline.report.findings import Client, Destination, Findings, Span
from stomprelay.pipeline.report.indicators import change
from stomprelay.pipeline.report.markup import Column, Sheet, figures, join, name, number, place, tag, when
from stomprelay.pipeline.report.plot import UNITS


def destinations(findings: Findings, palette: Palette) -> Figure:
    """Return the figure with a row for each of the top destinations."""
    key, title = "destinations", "Destinations"
    shown = findings.destinations
    if not shown:
        return Figure(key, title, "No destinations.")
    most = max(one.sent + one.delivered for one in shown) or 1
    columns = [
        Column("Destination"),
        *figures("Sent", "Delivered"),
        Column("Share and course"),
        *figures("On the wire", "Delivery p50", "Delivery p99", "Worst p99"),
        Column("In the minute"),
        *_then(findings),
    ]
    before = findings.before
    known = {} if before is None else {one.name: one.sent + one.delivered for one in before.destinations}
    listing = Sheet(
        "Destinations, the busiest first",
        columns,
        [
            [
                *_destination(one, palette, most),
                *_change(findings, one.sent + one.delivered, known.get(one.name, 0)),
            ]
            for one in shown
        ],
    )
    note = _note(len(shown), findings.total_destinations, "destination")
    return Figure(key, title, note, listing=listing, sheet=_course(findings.span, shown))


def _then(findings: Findings) -> list[Column]:
    """Return the heading of the column that compares with the time before, if there is anything to compare with."""
    earlier, before = findings.earlier, findings.before
    return [] if earlier is None or before is None else figures(f"Since the {earlier.period} before")


def _change(findings: Findings, now: int, then: int) -> list[str]:
    return [] if findings.before is None else [change(now, then)]


def _course(span: Span, shown: Sequence[Destination]) -> Sheet | None:
    """Return what the small charts show as a table."""
    courses = [one.spark for one in shown]
    points = max(map(len, courses))
    if not points:
        return None
    width = span.grouped * span.step
    return Sheet(
        f"Messages sent and delivered in {text.duration(width)} each",
        [Column("Time"), *figures(*(text.visible(one.name) for one in shown))],
        [
            [
                when(span.since + point * width, span.form),
                *(text.count(course[point]) if point < len(course) else "0" for course in courses),
            ]
            for point in range(points)
        ],
    )


def _note(shown: int, total: int, what: str) -> str:
    if shown < total:
        return f"The {text.count(shown)} busiest of {text.plural(total, what)}."
    return f"{text.plural(total, what)}, the busiest first."


def _destination(one: Destination, palette: Palette, most: int) -> list[str | Markup]:
    return [
        swatch(palette.of(one.name), name(one.name)),
        text.count(one.sent),
        text.count(one.delivered),
        tag(
            "div",
            _meter((one.sent + one.delivered) / most),
            spark(one.spark, palette.of(one.name)),
            class_="course",
        ),
        text.octets(one.octets),
        *(text.timed(value) for value in (one.delivery.p50, one.delivery.p99, one.worst_minute_p99)),
        text.NOTHING if one.worst_minute is None else when(one.worst_minute, "both"),
    ]


def _meter(share: float) -> Markup:
    return tag("span", tag("span", style=f"width:{place(share)}"), class_="meter", aria_hidden="true")


def spark(values: Sequence[int], colour: str) -> Markup | None:
    """Return a small chart of the values without axes."""
    if not any(values):
        return None
    top, width = max(values), UNITS / len(values)
    points = "".join(
        f"V{number(100 - 100 * value / top)}H{number(width * (bin_ + 1))}"
        for bin_, value in enumerate(values)
    )
    return tag(
        "svg",
        tag("path", d=f"M0 100{points}V100Z", class_=f"area {colour}"),
        viewBox=f"0 0 {UNITS} 100",
        preserveAspectRatio="none",
        class_="spark",
        aria_hidden="true",
    )


def clients(findings: Findings) -> Figure:
    """Return the figure with a row for each of the top clients."""
    key, title = "clients", "Clients"
    shown = findings.clients
    if not shown:
        return Figure(key, title, "No clients.")
    most = max(one.sent + one.received for one in shown) or 1
    columns = [
        Column("Client"),
        *figures("Sent", "Received"),
        Column("Share"),
        *figures("On the wire", "Errors"),
        *_then(findings),
    ]
    before = findings.before
    known = {} if before is None else {one.name: one.sent + one.received for one in before.clients}
    sheet = Sheet(
        "Clients, the busiest first",
        columns,
        [
            [*_client(one, most), *_change(findings, one.sent + one.received, known.get(one.name, 0))]
            for one in shown
        ],
    )
    return Figure(key, title, _note(len(shown), findings.total_clients, "client"), sheet=sheet, open=True)


def _client(one: Client, most: int) -> list[str | Markup]:
    errors = text.count(one.errors)
    return [
        name(one.name or "unnamed"),
        text.count(one.sent),
        text.count(one.received),
        tag("div", _meter((one.sent + one.received) / most), class_="course"),
        text.octets(one.octets),
        tag("b", errors, class_="alarmed") if one.errors else errors,
    ]


def quarantine(findings: Findings) -> Figure | None:
    """Return the figure with what could not be read; None if everything was read."""
    if not findings.total_damages:
        return None
    missing, unreadable = findings.total_missing, findings.total_damages - findings.total_missing
    note = []
    if unreadable:
        note.append(f"{text.plural(unreadable, 'stretch', 'stretches')} of the journal could not be read.")
    if missing:
        verb = "is" if missing == 1 else "are"
        note.append(
            f"{text.plural(missing, 'stretch', 'stretches')} of the journal {verb} missing, or came late."
        )
    note.append("What was in there is missing from all figures; everything around it is in them.")
    if missing:
        note.append(
            "Messages, sessions and outages that reach into what is missing are incomplete: they look undelivered, "
            "unanswered, or without a SEND."
        )
    sheet = Sheet(
        "Unreadable and missing stretches",
        [Column("Segment"), *figures("From octet", "Length"), Column("Why")],
        [
            [
                name(one.segment),
                text.count(one.position),
                text.octets(one.length),
                join(text.visible(one.reason, 300)),
            ]
            for one in findings.damages
        ],
    )
    return Figure("quarantine", "Quarantine", " ".join(note), sheet=sheet, open=True)
