"""A history as a chart, of text or SVG: the time, a column for each client, relay and broker, and words."""

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

from sim.history import Event, History, What
from sim.net import BEGIN
from sim.stomp import Frame

WIDTH: Final = 10
"""Signs between two columns of the text."""

_UNTOLD: Final = frozenset({b"persistent", b"content-length", b"content-type", b"server", b"host"})
"""Headers that say nothing about what happens."""

_SAID: Final = {
    What.CONNECTED: ("+", "{who} has connection {session} {text}"),
    What.ENDED: ("+", "{who} has no connection any more: {text}"),
    What.ACKED: ("+", "{who} acknowledges {text}"),
    What.SETTLED: ("+", "{who} removes {text}"),
    What.RETURNED: ("+", "{who} takes {text} back"),
    What.FORGOT: ("*", "{who} has lost {text}"),
    What.KEPT: ("+", "{who} has {text} at the end"),
    What.FATE: ("*", "{who} {text}"),
    What.LOGGED: ("+", 'logs "{text}"'),
    What.WRONG: ("!", "{who} {text}"),
    What.CALM: ("=", "the weather is calm from now on"),
}
"""The mark at a column where something happens that is no frame, and its words."""


class Row(NamedTuple):
    """An event in the chart: an arrow from a column to a column, or a mark at one, where both are the same."""

    time: str
    start: int
    end: int
    mark: str
    text: str


def told(frame: Frame) -> str:
    """Return a frame in few words: the command, its destination, the message's name, the other headers."""
    headers = {name: value.decode("utf-8", "backslashreplace") for name, value in frame.headers.items()}
    place = headers.pop(b"destination", "")
    body = frame.body.decode("utf-8", "backslashreplace")
    name = body.rstrip(".")[:60]
    if len(body) > len(name):
        name += f" ({len(body)} bytes)"
    rest = [
        f"{name.decode(errors='replace')}:{value}" for name, value in headers.items() if name not in _UNTOLD
    ]
    text = " ".join([part for part in (frame.command.decode(errors="replace"), place, name, *rest) if part])
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])


class Chart:
    """A chart of a history."""

    def __init__(self, history: History) -> None:
        scene = history.facts["scene"]
        others = [e.who for e in history if e.who not in scene.clients and e.who not in scene.brokers]
        self.title = str(scene)
        self.names = [*scene.clients, *dict.fromkeys(["relay", *others]), *scene.brokers]
        self._relay = self.names.index("relay")
        self.rows = [self._row(event) for event in history]

    def _row(self, event: Event) -> Row:
        time, here = f"{event.at - BEGIN:.3f}", self.names.index(event.who)
        text = (event.detail if event.frame is None else told(event.frame)).rstrip(".")
        match event.what:
            case What.SENT | What.GAVE:
                return Row(time, here, self._relay, "", text)
            case What.READ | What.TOOK:
                return Row(time, self._relay, here, "", text)
        mark, words = _SAID.get(event.what, ("+", f"{{who}} {event.what.value} {{text}}"))
        said = words.format(who=event.who, session=event.session, text=text).rstrip()
        return Row(time, here, here, mark, said)

    def lines(self) -> Iterator[str]:
        """Yield the chart as lines of text."""
        yield self.title
        yield ""
        yield " " * 11 + "".join([f"{name:<{WIDTH}}" for name in self.names])
        empty = ("|" + " " * (WIDTH - 1)) * len(self.names)
        for row in self.rows:
            line = list(empty)
            low, high = sorted((row.start * WIDTH, row.end * WIDTH))
            line[low : high + 1] = "-" * (high - low + 1)
            if row.mark:
                line[low] = row.mark
            else:
                line[row.start * WIDTH] = "o"
                line[row.end * WIDTH] = ">" if row.end > row.start else "<"
            yield f"{row.time:>9}  {''.join(line)}{row.text}".replace("\n", "\n" + " " * 11)

    def svg(self) -> str:
        """Return the chart as an SVG image."""
        left, gap, high = 80, 90, 20
        right = left + gap * len(self.names)
        width, height = right + 620, 60 + high * len(self.rows)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="12"'
            ' font-family="sans-serif" stroke-width="1.2">',
            '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0 8 4 0 8z"/></marker>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for at, name in enumerate(self.names):
            x = left + gap * at
            parts.append(
                f'<text x="{x}" y="20" text-anchor="middle" font-weight="bold">{escape(name)}</text>'
            )
            parts.append(f'<path d="M{x} 30V{height - 10}" stroke="silver"/>')
        for at, row in enumerate(self.rows):
            y, start, end = 45 + high * at, left + gap * row.start, left + gap * row.end
            parts.append(f'<text x="{left - 25}" y="{y + 4}" text-anchor="end" fill="gray">{row.time}</text>')
            if row.mark:
                color = {"!": "red", "*": "darkorange"}.get(row.mark, "gray")
                parts.append(f'<circle cx="{start}" cy="{y}" r="4" fill="{color}"/>')
            else:
                parts.append(f'<path d="M{start} {y}H{end}" stroke="black" marker-end="url(#arrow)"/>')
            text = row.text if len(row.text) < 100 else row.text[:97] + "..."
            parts.append(f'<text x="{right - 30}" y="{y + 4}">{escape(text)}</text>')
        return "\n".join([*parts, "</svg>"]) + "\n"
