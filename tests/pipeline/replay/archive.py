"""Tables `frames` made by hand, without Spark, and what a replay of them must send."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from stomprelay.pipeline.schema import FRAMES, MESSAGES
from tests.pipeline import rows
from tests.pipeline.rows import FRAME, START_NS

_STEP: Final = 1_000_000

Row = Mapping[str, Any]


def send(number: int, destination: str, body: bytes, **more: Any) -> dict[str, Any]:
    """A SEND as the pipeline has it, the `number`-th of its session, a millisecond after the one before."""
    headers = {"destination": destination, "content-length": str(len(body)), **more.pop("headers", {})}
    ns = START_NS + number * _STEP
    said = {"destination": destination, "headers": list(headers.items())}
    carried = {"body_size": len(body), "body": body or None}
    place = {"ns": ns, "seen_at": ns // 1000, "position": number * 100, "number": number}
    return {**FRAME, **said, **carried, **place, **more}


def orders(count: int, destinations: int) -> list[dict[str, Any]]:
    """So many SENDs to destinations in turn; the bodies say the destination's own order."""
    made = []
    for number in range(count):
        body = b"%d" % (number // destinations) + b" " * 20
        headers = {"kind": "order", "n": str(number)}
        made.append(send(number, f"/queue/d{number % destinations}", body, headers=headers))
    return made


def write(tables: Path, many: Iterable[Row]) -> Path:
    """Add these rows to table `frames`, as a batch of the pipeline would."""
    rows.write(tables, FRAMES, {}, many)
    return tables


def messages(tables: Path, known: Mapping[int, Row], *, final: bool = True) -> Path:
    """Add rows to table `messages`, by the numbers of their SENDs: those of a batch, or those that may change."""
    usual = {"final": final, "segment": FRAME["segment"], "sent_at": FRAME["seen_at"], "deliveries": []}
    many = [{**usual, "position": number * 100, "number": number, **one} for number, one in known.items()]
    rows.write(tables, MESSAGES, {}, many, 0 if final else "open")
    return tables
