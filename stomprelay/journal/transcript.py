"""Records as lines that people read."""

import re
from collections.abc import Iterator
from typing import Any, Final

from stomprelay.journal import moment
from stomprelay.journal.record import Record
from stomprelay.journal.schema import Side

_GAP: Final = "    | "
_BARE: Final = re.compile(r'[^\s"]+')


def lines(record: Record, *, bodies: bool = False) -> Iterator[str]:
    """One line, and with `bodies` those of what was kept of the body."""
    context = record.context
    words = [moment.shown(record.time), _word(context.session), _word(context.client)]
    if record.happening is not None:
        happening = record.happening
        facts = [f"{visible(name)}={_quoted(value)}" for name, value in happening.facts.items()]
        yield " ".join([*words, "--", visible(happening.event) + ":", visible(happening.text), *facts])
        return
    if context.side == Side.BROKER.value:
        words += ["<-", _word(context.broker)]
    else:
        words.append("->")
    frame = record.frame
    words += [visible(record.command), *[f"{visible(name)}:{_quoted(text)}" for name, text in record.headers]]
    if frame is not None and frame.size:
        words.append(f"({frame.size} octet{'' if frame.size == 1 else 's'})")
    yield " ".join(words)
    if bodies and frame is not None and frame.size:
        if frame.kept:
            for line in frame.kept.decode("utf-8", "backslashreplace").split("\n"):
                yield _GAP + visible(line)
        if len(frame.kept) < frame.size:
            yield f"{_GAP}... {len(frame.kept)} of {frame.size} octets were kept"


def visible(text: str) -> str:
    """The text with escapes in place of what would move a terminal's cursor, or do worse."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _word(text: str) -> str:
    return visible(text) if text else "-"


def _quoted(value: Any) -> str:
    """As it is where it is one word; else in quotes."""
    text = visible(str(value))
    return text if _BARE.fullmatch(text) else '"' + text.replace('"', '\\"') + '"'
