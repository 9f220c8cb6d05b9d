"""HTML taken apart, strictly: what is opened is closed, in order."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset(("meta", "link", "br", "img", "input"))


@dataclass
class Element:
    """One element with all that is in it."""

    name: str
    attributes: dict[str, str]
    pieces: list["str | Element"] = field(default_factory=list)

    @property
    def children(self) -> list["Element"]:
        """The elements right in it."""
        return [piece for piece in self.pieces if isinstance(piece, Element)]

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def all(self, name: str = "", kind: str = "") -> list["Element"]:
        """Those below it with this name and this class, in order."""
        return [
            element
            for element in self.below()
            if (not name or element.name == name) and (not kind or kind in element.classes)
        ]

    def below(self) -> Iterator["Element"]:
        """All that are in it, in order."""
        waiting = self.children[::-1]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += element.children[::-1]

    def one(self, name: str = "", kind: str = "") -> "Element":
        """The only one."""
        (found,) = self.all(name, kind)
        return found


class Outline(HTMLParser):
    """Takes HTML apart. Fails by an assertion where it is not well-formed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(html)
        self.close()
        assert self._open == [self.root], f"never closed: {self._open[-1].name}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].pieces.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Element:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> says an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].pieces.append(element)
        return element


def outline(html: str) -> Element:
    """The root of what the HTML holds."""
    return Outline(html).root


def cells(table: Element) -> list[list[str]]:
    """The text of a table's body, row by row."""
    return [[cell.text for cell in row.children] for row in table.one("tbody").all("tr")]
