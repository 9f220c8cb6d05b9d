"""The names of places: how the names that clients use are spelled for a broker, and back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from stomprelay.wire.errors import Refused

PARTED: Final = re.compile(r"\{([a-z]\w*)(?::([a-z+]+))?\}", re.ASCII)
"""Matches a part of a pattern: `{part}` or `{part:spelling}`."""

LONGEST: Final = 256
"""Longer names are not remembered."""
_REMEMBERED: Final = 1024


class Spelling(NamedTuple):
    """How a pattern spells a part: `said` returns the spelling of a value, `read` the value."""

    said: Callable[[bytes], bytes] = bytes
    read: Callable[[bytes], bytes] = bytes


# RabbitMQ takes no other escape in a name, and escapes more when it says one.
_PERCENT: Final = Spelling(lambda value: value.replace(b"/", b"%2F"), unquote_to_bytes)
# The rest of a topic's words: `>` of ActiveMQ is `#` of RabbitMQ and Artemis.
_HASH: Final = Spelling(
    lambda value: re.sub(rb"(?:(?<=\.)|^)>\Z", b"#", value),
    lambda value: re.sub(rb"(?:(?<=\.)|^)#\Z", b">", value),
)
SPELLINGS: Final = {
    "": Spelling(),
    "percent": _PERCENT,
    "hash": _HASH,
    "hash+percent": Spelling(
        lambda value: _PERCENT.said(_HASH.said(value)), lambda value: _HASH.read(_PERCENT.read(value))
    ),
}


@dataclass(frozen=True)
class Pattern:
    """A pattern of names: `{part}` stands for one byte or more, up to the first byte of the text behind it, at the end
    of the pattern for all that is left.
    """

    text: str

    @cached_property
    def _pieces(self) -> list[str]:
        """The text, then the name and the spelling of the part behind it (None: no spelling), then text again ..."""
        return PARTED.split(self.text)

    @property
    def parts(self) -> list[str]:
        """The names of the parts."""
        return self._pieces[1::3]

    @property
    def sample(self) -> bytes:
        """A name that matches the pattern."""
        return self.said({name: name.encode() for name in self.parts})

    @cached_property
    def _matching(self) -> re.Pattern[bytes]:
        said = [each.encode() for each in self._pieces[::3]]
        kinds = [b"([^%b]+)" % re.escape(behind[:1]) if behind else b"(.+)" for behind in said[1:]]
        found = b"".join([re.escape(text) + kind for text, kind in zip(said, [*kinds, b""], strict=True)])
        return re.compile(found, re.DOTALL)

    def read(self, name: bytes) -> dict[str, bytes] | None:
        """Return the values of the parts; None if the name does not match."""
        found = self._matching.fullmatch(name)
        if found is None:
            return None
        parts = zip(self.parts, self._pieces[2::3], found.groups(), strict=True)
        return {part: SPELLINGS[spelling or ""].read(value) for part, spelling, value in parts}

    def said(self, values: dict[str, bytes]) -> bytes:
        """Return the name with these values of the parts."""
        text, *rest = self._pieces
        made = [text.encode()]
        for part, spelling, behind in zip(*[iter(rest)] * 3, strict=True):
            made += [SPELLINGS[spelling or ""].said(values[part]), behind.encode()]
        return b"".join(made)


class NameRow(NamedTuple):
    """Names that clients use, and the broker's names of the same places. Both have the same parts. `product`: the
    brokers for which the row is; None: for all.
    """

    client: Pattern
    broker: Pattern
    product: str | None = None

    def __str__(self) -> str:
        at = "" if self.product is None else f" at {self.product}"
        return f"{self.client.text} is {self.broker.text}{at}"


@dataclass(frozen=True)
class NameMap:
    """How names are spelled for a broker. The first row that matches a name counts; other names stay as they are."""

    rows: tuple[NameRow, ...]

    @cached_property
    def _spelled(self) -> Callable[[bytes], bytes]:
        return lru_cache(_REMEMBERED)(self._to_broker)

    @cached_property
    def _said(self) -> Callable[[bytes], bytes]:
        return lru_cache(_REMEMBERED)(self._to_client)

    def to_broker(self, name: bytes) -> bytes:
        """Return the broker's name for a client's. Raises `Refused` if the broker's name would come back as another
        one, so that two names of clients would be one place.
        """
        return (self._spelled if len(name) <= LONGEST else self._to_broker)(name)

    def to_client(self, name: bytes) -> bytes:
        """Return the client's name for a broker's."""
        return (self._said if len(name) <= LONGEST else self._to_client)(name)

    def _to_broker(self, name: bytes) -> bytes:
        spelled = name
        for client, broker, _ in self.rows:
            values = client.read(name)
            if values is not None:
                spelled = broker.said(values)
                break
        if self._to_client(spelled) != name:
            raise Refused("a destination has no name at the broker", "the name is another one's", quoted=name)
        return spelled

    def _to_client(self, name: bytes) -> bytes:
        for client, broker, _ in self.rows:
            values = broker.read(name)
            if values is not None:
                return client.said(values)
        return name

    def clash(self) -> str | None:
        """Return why the map is of no use: a row that never applies, or whose names would come back as names of
        another row. None: it is good.
        """
        for number, row in enumerate(self.rows):
            sample = row.client.sample
            for client, broker, _ in self.rows[:number]:
                if client.read(sample) is not None:
                    return f"{row.client.text}: {client.text}, which comes first, takes all its names"
                if broker.read(row.broker.sample) is not None:
                    return f"{client.text} and {row.client.text} would be one place, {row.broker.text}"
            if self._to_client(row.broker.sample) != sample:
                return f"{row.client.text}: {row.broker.text} does not lead back to it"
        return None


NO_NAMES: Final = NameMap(())
"""The map of a broker that spells names as clients do."""
