"""Conversations that were recorded with real brokers: literal bytes that our own encoder never made.

Each file of `tests/corpus/` holds cases (`== case`), each of some connections, in the order in which it happened:

    A> b'...'     connection A sent this, in one write
    A< b'...'     connection A received this
    A< (...)      connection A received nothing for as long as it says
    A# ...        what became of connection A
    # ...         what the next lines are about, or octets that were not kept

RabbitMQ 3.10.8 and ActiveMQ 5.17.2 on Debian 12, Artemis 2.44.0 and ActiveMQ 6.1.4 of Maven Central, which calls its
own version `${project.version}`. The host in ActiveMQ's ids is not the original one.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

CORPUS: Final = Path(__file__).with_name("corpus")


class Chunk(NamedTuple):
    """Octets that went one way at once; `note` is the comment that stood before them, if any."""

    sent: bool
    data: bytes
    note: str


@dataclass(frozen=True)
class Recording:
    """One connection to a broker, from its first octet to its last.

    `name` is `broker-version/case/connection`, the version being the one that the case was recorded for.
    """

    name: str
    chunks: tuple[Chunk, ...]

    @property
    def broker(self) -> str:
        """`activemq`, `activemq_6`, `artemis` or `rabbitmq`."""
        return self.name.partition("-")[0]

    @property
    def case(self) -> str:
        """What was tried."""
        return self.name.split("/")[1]

    @property
    def sent(self) -> list[Chunk]:
        """What the client wrote, write by write."""
        return [chunk for chunk in self.chunks if chunk.sent]

    @property
    def received(self) -> bytes:
        """All that the broker wrote."""
        return b"".join(chunk.data for chunk in self.chunks if not chunk.sent)


@cache
def recordings() -> tuple[Recording, ...]:
    """Every connection of the corpus, in the order of the files."""
    return tuple(recording for path in sorted(CORPUS.glob("*.txt")) for recording in _read(path))


def _read(path: Path) -> list[Recording]:
    found: dict[str, list[Chunk]] = {}
    case = note = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "==":
            case, note = rest.partition(":")[0], ""
        elif mark == "#":
            note = rest
        elif rest.startswith("b"):
            data = ast.literal_eval(rest)
            assert isinstance(data, bytes)
            chunks = found.setdefault(f"{path.stem}/{case}/{mark[:-1]}", [])
            chunks.append(Chunk(mark[-1] == ">", data, note))
            note = ""
    return [Recording(name, tuple(chunks)) for name, chunks in found.items()]
