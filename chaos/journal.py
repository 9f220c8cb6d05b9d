"""A relay that keeps a journal is killed under load, again and again.

Foreign clients send and receive through it, and each notes what it was told and when: the receipts of its SENDs, the
MESSAGEs that it got. Then the relay gets SIGKILL at a random moment, and the journal is read. What clients were told
must be in it, but for the last moments that were not given to the system yet; no block may be damaged but for a torn
end; and in each leg no frame may be missing before one that is there.
"""

import random
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.verdict import Verdict
from stomprelay.journal import segment
from stomprelay.journal.block import SIZES, Block, BlockKind, Damage
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, Header
from stomprelay.journal.settings import JournalSettings
from tests.e2e import brokers, relay
from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import Client
from tests.e2e.clients.stompest import Stompest
from tests.e2e.clients.stomppy import StompPy
from tests.e2e.load import Consumer, Producer, Worker, all_flow
from tests.e2e.ports import free_port

SECOND: Final = 10**9
BUSY: Final = 1.0
"""Seconds that a busy machine may let the journal's thread wait."""
LONGEST: Final = JournalSettings.flush_interval + BUSY
"""Seconds before its end of which a killed relay may have written nothing."""
MOMENT: Final = 2.5
"""Seconds of load up to which a relay is killed, once all is flowing."""


class Pump(Producer):
    """A producer that notes when it had the receipt of each message."""

    def __init__(self, name: str, client: Client, port: int, version: str, destination: str) -> None:
        super().__init__(name, client, port, version, destination, pause=0.001)
        self.told: dict[bytes, int] = {}

    def _achieved(self) -> None:
        self.told[f"{self.name}:{self.receipts[-1]}".encode()] = time.time_ns()
        super()._achieved()


class Sink(Consumer):
    """A consumer that notes when it had each message."""

    def __init__(
        self, name: str, client: Client, port: int, version: str, destination: str, ack: str
    ) -> None:
        super().__init__(name, client, port, version, destination, ack)
        self.told: dict[bytes, int] = {}

    def _achieved(self) -> None:
        self.told[self.bodies[-1]] = time.time_ns()
        super()._achieved()


@dataclass
class Found:
    """What segments hold: the bodies of SENDs and of MESSAGEs. `holes`: legs of which a frame is missing before one
    that is there; `torn`: ends within a block; `damaged`: whatever else cannot be read.
    """

    blocks: int = 0
    frames: int = 0
    sends: set[bytes] = field(default_factory=set)
    messages: set[bytes] = field(default_factory=set)
    holes: list[str] = field(default_factory=list)
    torn: int = 0
    damaged: list[str] = field(default_factory=list)


def found(paths: Iterable[Path]) -> Found:
    """Read the segments of one run, in order."""
    result = Found()
    legs: dict[tuple[str, ...], int] = {}
    for path in paths:
        header: Header | None = None
        for item in segment.read(path):
            if isinstance(item, Header):
                header = item
            elif isinstance(item, Damage):
                if item.torn:
                    result.torn += 1
                else:
                    result.damaged.append(f"{path.name} at {item.offset}: {item.reason}")
            else:
                result.blocks += 1
                if item.kind is BlockKind.FRAMES and header is not None:
                    _frames(item, header.contexts(item.context), legs, result)
    return result


def _frames(block: Block, context: Context, legs: dict[tuple[str, ...], int], result: Found) -> None:
    leg = (context.session, context.side, context.broker)
    if block.number != legs.get(leg, 0):
        result.holes.append(f"{' '.join(leg)}: {legs.get(leg, 0)} frames, and then number {block.number}")
    for frame in block.frames:
        command = frame.head.partition(b"\n")[0]
        if command == b"SEND":
            result.sends.add(frame.kept)
        elif command == b"MESSAGE":
            result.messages.add(frame.kept)
    count = len(block.sizes) // SIZES
    result.frames += count
    legs[leg] = block.number + count


@dataclass
class Round:
    """One relay's life: what clients were told by then, what of it is not in the journal, and for how long before the
    end nothing is: `silent`, in seconds.
    """

    told: int
    missing: int
    silent: float


def judged(told: Mapping[bytes, int], there: set[bytes], end: int) -> Round:
    """Compare what was told, each with its time, with what is there; `end`: when the relay was killed."""
    missing = [at for body, at in told.items() if body not in there]
    silent = max(((end - at) / SECOND for at in missing), default=0.0)
    return Round(len(told), len(missing), max(silent, 0.0))


def config(port: int, broker: int, folder: Path) -> str:
    """A relay in front of a broker that journals everything."""
    return f"""
[listener.main]
endpoint = "tcp:{port}:interface=127.0.0.1"
upstream = "main"
[upstream.main]
uri = "tcp://127.0.0.1:{broker}"
[journal]
directory = "{folder}"
relay = "chaos"
segment_size = 200_000
bodies = "all"
"""


def load(number: int, port: int) -> tuple[list[Pump], list[Sink]]:
    """Clients of two libraries, of queues of this round's own."""
    pumps: list[Pump] = []
    sinks: list[Sink] = []
    kinds: tuple[tuple[type[Client], str, type[Client], str, str], ...] = (
        (StompPy, "1.2", Stompest, "1.1", "client-individual"),
        (Stompest, "1.2", StompPy, "1.1", "auto"),
    )
    for line, (source, source_version, sink, sink_version, ack) in enumerate(kinds):
        queue = f"/queue/chaos-{number}-{line}"
        pumps.append(Pump(f"{number}-{line}", source(), port, source_version, queue))
        sinks.append(Sink(f"sink {number}-{line}", sink(), port, sink_version, queue, ack))
    return pumps, sinks


def killed(
    home: Path, number: int, broker: int, folder: Path, delay: float
) -> tuple[list[Pump], list[Sink], int]:
    """Run a relay and clients, and kill it so many seconds after all was flowing; answers the clients, which have
    ended, and when it was.
    """
    port = free_port()
    path = home / "relay.toml"
    path.write_text(config(port, broker, folder))
    child = relay.start(home, ["stomprelay", "-c", str(path)])
    workers: list[Worker] = []
    try:
        child.wait_for_output(rf" starting on {port}$")
        pumps, sinks = load(number, port)
        workers += [*pumps, *sinks]
        for worker in workers:
            worker.start()
        all_flow(workers)
        time.sleep(delay)
        end = time.time_ns()
    finally:
        child.stop(signal.SIGKILL)
        for worker in workers:
            worker.join(PATIENCE)
            assert not worker.is_alive(), f"{worker.name} goes on"
    return pumps, sinks, end


def run(home: Path, rounds: int, seed: int) -> Verdict:
    """So many kills. `home` is an empty folder."""
    chance = random.Random(seed)
    folder = home / "journal"
    folder.mkdir()
    sent, heard, whole, broken = [], [], Found(), []
    known: set[Path] = set()
    cut = 0
    with brokers.memory(home) as broker:
        for number in range(rounds):
            pumps, sinks, end = killed(home, number, broker.port, folder, chance.uniform(0, MOMENT))
            entries = [each for each in Folder(folder).segments() if each.path not in known]
            there = found(each.path for each in entries)
            sent.append(judged({k: at for each in pumps for k, at in each.told.items()}, there.sends, end))
            heard.append(
                judged({k: at for each in sinks for k, at in each.told.items()}, there.messages, end)
            )
            broken += [f"kill {number + 1}: {each}" for each in [*there.damaged, *there.holes]]
            # As the next relay would do.
            for done in Folder(folder).recover(time.time_ns()):
                cut += done.cut
                if done.failure:
                    broken.append(f"kill {number + 1}: {done.was.name}: {done.failure}")
            after = [each for each in Folder(folder).segments() if each.path not in known]
            known |= {each.path for each in after}
            again = found(each.path for each in after)
            if again.torn or (again.sends, again.messages, again.frames) != (
                there.sends,
                there.messages,
                there.frames,
            ):
                broken.append(f"kill {number + 1}: after recovery the journal says something else")
            for name in ("blocks", "frames", "torn"):
                setattr(whole, name, getattr(whole, name) + getattr(there, name))
        broken += [f"segments are missing: {each}" for each in Folder(folder).gaps()]
    silent = max(each.silent for each in [*sent, *heard])
    if silent > LONGEST:
        broken.append(f"nothing was written of the last {silent:.2f} s, more than {LONGEST:.2f} s")
    return Verdict(
        f"journal: {rounds} kills of a relay under load",
        (
            ("SENDs confirmed to clients", f"{sum(each.told for each in sent):,}"),
            ("  of these not in the journal", f"{sum(each.missing for each in sent):,}"),
            ("MESSAGEs that clients got", f"{sum(each.told for each in heard):,}"),
            ("  of these not in the journal", f"{sum(each.missing for each in heard):,}"),
            ("longest time before a kill that is missing", f"{silent * 1000:.0f} ms"),
            ("blocks, frames read", f"{whole.blocks:,}, {whole.frames:,}"),
            ("torn ends, octets cut off", f"{whole.torn:,}, {cut:,}"),
            ("damage other than torn ends, or holes", f"{len(broken):,}"),
        ),
        tuple(broken),
    )
