"""What the tests of the data source have in common."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import types

from stomprelay.pipeline.stomp.client import Client
from stomprelay.pipeline.stomp.columns import Columns
from stomprelay.pipeline.stomp.options import ReaderOptions, Sink
from stomprelay.pipeline.stomp.spool import MessageSpool
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS
from tests.e2e.raw import Closed, Connection, ScriptedBroker, close_all, headers

URI = "tcp://127.0.0.1:61613"


def message(number: int, more: bytes = b"", body: bytes = b"hello") -> bytes:
    """Spell a MESSAGE of a broker."""
    head = b"subscription:0\nmessage-id:m%d\nack:a%d\ndestination:/queue/a\n" % (number, number)
    return b"MESSAGE\n%b%bcontent-length:%d\n\n%b\0\n" % (head, more, len(body), body)


def frames(data: bytes) -> Iterator[Frame]:
    """Read what a broker says."""
    decoder = Decoder(V1_2, BROKER_COMMANDS, Limits())
    decoder.feed(data)
    return decoder.frames()


def batch(first: int, end: int) -> Any:
    """Make a group for a spool whose bodies are their sequences."""
    columns = Columns(["/queue/a"], headers=True)
    for frame in frames(b"".join(message(number, body=b"%d" % number) for number in range(first, end))):
        columns.add(columns.read(frame), frame.payload, 1_700_000_000_000_000)
    return columns.batch()


def filled(folder: Path, *groups: int, segment: int = 1 << 20, first: int = 0) -> None:
    """Fill a spool with groups of these sizes."""
    spool = MessageSpool(folder, segment=segment, first=first)
    for size in groups:
        spool.append(batch(spool.end, spool.end + size))
    spool.close()


def source(folder: Path, uri: str = URI, /, **options: object) -> ReaderOptions:
    """Make the options of a reader; `_` in names stands for a dot."""
    said = {"uri": uri, "destination": "/queue/a", "spool": str(folder)}
    return ReaderOptions.read(said | {name.replace("_", "."): str(value) for name, value in options.items()})


def sink(uri: str = URI, /, **options: object) -> Sink:
    """Make the options of a writer."""
    return Sink.read({"uri": uri} | {name.replace("_", "."): str(value) for name, value in options.items()})


_KINDS: dict[str, types.DataType] = {
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "boolean": types.BooleanType(),
    "timestamp": types.TimestampType(),
    "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    "map<string,int>": types.MapType(types.StringType(), types.IntegerType()),
}


def schema(ddl: str) -> types.StructType:
    """Read a schema as Spark would, without its Java."""
    said = [each.split(" ") for each in ddl.split(", ")]
    return types.StructType(
        [types.StructField(name, _KINDS[kind], rest != ["NOT", "NULL"]) for name, kind, *rest in said]
    )


def until(reached: Callable[[], bool], patience: int = 3000) -> None:
    """Ask again and again, for up to 30 seconds."""
    pause = threading.Event()
    for _ in range(patience):
        if reached():
            return
        pause.wait(0.01)
    raise AssertionError("not reached in 30 s")


CONNECTED = b"CONNECTED\nversion:1.2\nserver:scripted\n\n\0"
BYE, GONE = b"DISCONNECT\nreceipt:bye\n\n\0", b"RECEIPT\nreceipt-id:bye\n\n\0"
"""What a client says when it goes, and its answer."""


def accept(broker: ScriptedBroker, said: bytes = CONNECTED) -> Connection:
    """Accept a client and answer its CONNECT."""
    connection = broker.accept()
    assert connection.frame().startswith(b"CONNECT\n")
    connection.write(said)
    return connection


class Confirming:
    """A broker that confirms in a thread; `frames` are what it was told, `seen` is called with each before that."""

    def __init__(
        self, server: bytes = b"scripted", seen: Callable[[bytes], None] = lambda frame: None
    ) -> None:
        self._seen = seen
        self.frames: list[bytes] = []
        self.asked = 0
        self.silent = False
        self._closing = False
        self._server = server
        self._broker = ScriptedBroker()
        self.port = self._broker.port
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def sends(self) -> list[bytes]:
        """The SENDs among them."""
        return [frame for frame in self.frames if frame.startswith(b"SEND\n")]

    def close(self) -> None:
        """Listen no more."""
        self._closing = True
        Connection.to(self.port).close()
        self._thread.join(30)
        self._broker.__exit__(None, None, None)
        close_all()

    def _serve(self) -> None:
        while True:
            peer = self._broker.accept()
            if self._closing:
                peer.close()
                return
            try:
                peer.frame()
                peer.write(b"CONNECTED\nversion:1.2\nserver:%b\n\n\0" % self._server)
                while True:
                    frame = peer.frame()
                    self.frames.append(frame)
                    self._seen(frame)
                    receipt = headers(frame).get(b"receipt")
                    if receipt is not None and not self.silent:
                        self.asked += 1
                        peer.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
            except (Closed, OSError):
                peer.close()


def told(client: Client, count: int) -> list[Frame]:
    """Wait for so many frames."""
    found: list[Frame] = []

    def enough() -> bool:
        found.extend(client.frames(0.1))
        return len(found) >= count

    until(enough, 600)
    return found


def failover(broker: ScriptedBroker | Confirming) -> str:
    """Name a broker that is asked for again when it is gone."""
    return f"failover:(tcp://127.0.0.1:{broker.port})"
