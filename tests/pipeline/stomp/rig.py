"""What the tests of the data source have in common."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

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


_KINDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(ddl: str) -> StructType:
    """Read a schema as Spark would, without its Java."""
    fields = []
    for said in ddl.split(", "):
        name, kind, *rest = said.split(" ")
        fields.append(StructField(name, _KINDS[kind], rest != ["NOT", "NULL"]))
    return StructType(fields)


def until(reached: Callable[[], bool], patience: int = 3000) -> None:
    """Ask again and again, for up to 30 seconds."""
    pause = threading.Event()
    for _ in range(patience):
        if reached():
            return
        pause.wait(0.01)
    raise AssertionError("not reached in 30 s")


def accept(
    broker: ScriptedBroker, said: bytes = b"CONNECTED\nversion:1.2\nserver:scripted\n\n\0"
) -> Connection:
    """Accept a client and answer its CONNECT."""
    connection = broker.accept()
    assert connection.frame().startswith(b"CONNECT\n")
    connection.write(said)
    return connection


class Confirming:
    """A broker that confirms what it is asked to, in a thread; `frames` are what it was told. `seen` is called with
    each, before it is confirmed.
    """

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


def told(client: Client, count: int) -> list[tuple[bytes, bytes]]:
    """Wait for so many frames: command and body."""
    found: list[tuple[bytes, bytes]] = []
    for _ in range(300):
        found += [(frame.command, frame.payload) for frame in client.frames(0.1)]
        if len(found) >= count:
            break
    return found
