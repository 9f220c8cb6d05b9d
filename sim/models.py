"""The models of brokers, held against the brokers: both play the same conversations, and what each writes is compared.

`python -m sim.models` plays them to the brokers that are installed and to their models, and prints what differs.
`--record` keeps what the brokers wrote, for the test of the models: `tests/corpus/models`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from chaos import real
from sim.actors import Line
from sim.brokers import PRODUCTS, Broker, Product
from sim.history import History
from sim.net import Clock, Network, Weather
from sim.stomp import Frame, Malformed, Pairs, Reader, write
from tests.e2e import brokers
from tests.e2e.certificates import Authority

SCRIPT: Final = Path(__file__).with_name("conversations.txt")
RECORDED: Final = Path(__file__).parents[1] / "tests" / "corpus" / "models"
VERSIONS: Final = ["1.0", "1.1", "1.2"]
MODELS: Final = {each.name: each for each in PRODUCTS}
MODELS["activemq_6"] = MODELS["activemq"]
"""The models, by the names of the brokers that they are held against."""
QUIET: Final = 0.5
"""Seconds of silence after which a broker is taken to have written all."""


class Conversation(NamedTuple):
    """What is written, line by line, in one version."""

    title: str
    version: bytes
    lines: list[str]


def conversations() -> list[Conversation]:
    """Return all conversations, in all their versions."""
    made = []
    for part in SCRIPT.read_text().split("\n== ")[1:]:
        name, *rows = part.strip().splitlines()
        versions = rows.pop(0).split()[1:] if rows[0].startswith("in ") else VERSIONS
        lines = list(_lines(" ".join(rows).split("; ")))
        made += [Conversation(f"{name} in {version}", version.encode(), lines) for version in versions]
    return made


def _lines(steps: list[str]) -> Iterator[str]:
    who, known = "", set[str]()
    for step in steps:
        first, _, rest = step.partition(" ")
        if first in ("kill", "wait"):
            yield step
            continue
        who, said = (first, rest) if len(first) == 1 else (who, step)
        if who not in known and not said.startswith("CONNECT"):
            yield f"{who} CONNECT"
        known.add(who)
        yield f"{who} {said}"


class Talk:
    """A client of a conversation: what it has read since it was last asked."""

    def __init__(self, version: bytes, side: "Model | Real") -> None:
        self.answers: list[str] = []
        self.messages: list[Frame] = []
        self.got: dict[bytes, dict[bytes, bytes]] = {}
        self._reader = Reader(version)
        self.wire = side.connect(self._received, lambda how: self.answers.append("ended"))

    def _received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (frame := self._reader.next()) is not None:
                self._read(frame)
        except (Malformed, ValueError) as error:
            self.answers.append(f"unreadable: {error}")

    def _read(self, frame: Frame) -> None:
        headers = frame.headers
        if frame.command == b"MESSAGE":
            self.messages.append(frame)
            self.got[frame.body] = headers
            return
        shown = [frame.command.decode(), headers.get(b"receipt-id", b"").decode()]
        if frame.command == b"CONNECTED":
            server = headers.get(b"server", b"nobody").decode().partition("/")[0]
            shown = ["CONNECTED", f"version:{headers.get(b'version', b'none').decode()}", f"server:{server}"]
            shown.append(f"heart-beat:{headers.get(b'heart-beat', b'0,0').decode()}")
        self.answers.append(" ".join(shown).rstrip())


class Player:
    """Plays one conversation, a line at a time. `seen` is what came, a line of text for each frame."""

    def __init__(self, conversation: Conversation, side: "Model | Real", mark: str) -> None:
        self.conversation = conversation
        self.seen: list[str] = []
        self._side = side
        self._mark = mark
        self._talks: dict[str, Talk] = {}
        self._ids: dict[bytes, set[bytes]] = {}

    def write(self, line: str) -> None:
        """Do what a line says."""
        who, command, *words = line.split()
        if who not in self._talks:
            self._talks[who] = Talk(self.conversation.version, self._side)
        talk = self._talks[who]
        if command == "drop":
            self._talks.pop(who).wire.close()
        elif command == "shut":
            talk.wire.half_close()
        else:
            talk.wire.write(self._frame(talk, command, words))

    def _frame(self, talk: Talk, command: str, words: list[str]) -> bytes:
        version = self.conversation.version
        headers: Pairs = []
        body = b""
        if command in ("CONNECT", "STOMP"):
            headers = [] if version == b"1.0" else [(b"accept-version", version), (b"host", b"/")]
            headers += [(b"login", b"guest"), (b"passcode", b"guest")]
        if command == "SEND":
            headers = [(b"persistent", b"true")]
        for word in words:
            kind = "queue" if word != "t" else "topic"
            if word.startswith("|"):
                body = word[1:].encode()
            elif word.startswith("@"):
                headers += self._named(talk, word[1:].encode())
            elif ":" in word:
                name, _, value = word.encode().partition(b":")
                headers = [*[each for each in headers if each[0] != name], (name, value)]
            elif len(word) == 1:
                if command != "UNSUBSCRIBE" or version == b"1.0":
                    headers.append((b"destination", f"/{kind}/{self._mark}-{word}".encode()))
            elif word.startswith("r"):
                headers.append((b"receipt", word.encode()))
            elif version != b"1.0":
                headers.append((b"id", word.encode()))
        return write(version, command.encode(), headers, body)

    def _named(self, talk: Talk, body: bytes) -> Pairs:
        headers = talk.got.get(body, {b"ack": b"none", b"message-id": b"none", b"subscription": b"s1"})
        if self.conversation.version == b"1.2":
            return [(b"id", headers.get(b"ack", headers[b"message-id"]))]
        named = [(b"message-id", headers[b"message-id"])]
        if self.conversation.version == b"1.1":
            named.append((b"subscription", headers.get(b"subscription", b"")))
        return named

    def look(self) -> None:
        """Add what came to `seen`: answers in their order, then messages in that of their queue."""
        for who, talk in self._talks.items():
            talk.messages.sort(key=lambda each: each.headers.get(b"destination", b""))
            shown = [*talk.answers, *[self._shown(each) for each in talk.messages]]
            self.seen += [f"  {who} {each}" for each in shown]
            talk.answers.clear()
            talk.messages.clear()

    def _shown(self, frame: Frame) -> str:
        headers = frame.headers
        ids = self._ids.setdefault(frame.body, set())
        id = headers.get(b"message-id", b"none")
        shown = [f"MESSAGE {frame.body.decode()}"]
        if ids:
            shown.append("old id" if id in ids else "new id")
        ids.add(id)
        if (again := headers.get(b"redelivered", b"false")) != b"false":
            shown.append(f"redelivered:{again.decode()}")
        for name in (b"subscription", b"receipt", b"transaction"):
            if name in headers:
                value = headers[name].decode().replace(self._mark, "")
                shown.append(f"{name.decode()}:{value}")
        return " ".join(shown)


def play(asked: list[Conversation], side: "Model | Real", mark: str) -> dict[str, list[str]]:
    """Play conversations side by side, a line of each at a time. Return what was seen of each, by its title."""
    players = [Player(each, side, f"{mark}-{number}") for number, each in enumerate(asked)]
    for at in range(max([len(each.lines) for each in asked], default=0)):
        pause = 0.0
        for player in players:
            for line in player.conversation.lines[at : at + 1]:
                player.seen.append(line)
                if line == "kill":
                    side.kill()
                elif line.startswith("wait"):
                    pause = max(pause, float(line.split()[1]))
                else:
                    player.write(line)
        side.settle(pause)
        for player in players:
            player.look()
    return {each.conversation.title: each.seen for each in players}


def play_all(asked: list[Conversation], side: "Model | Real", mark: str = "m") -> dict[str, list[str]]:
    """Play conversations, in queues named with `mark`: those that kill the broker last, each by itself."""
    seen = play([each for each in asked if "kill" not in each.lines], side, mark)
    for number, each in enumerate(each for each in asked if "kill" in each.lines):
        seen |= play([each], side, f"{mark}k{number}")
    return seen


class Side:
    """What is connected to."""

    net: Network
    place: tuple[str, int]

    def connect(self, received: Callable[[bytes], None], ended: Callable[[str], None]) -> Line:
        """Connect."""
        end = self.net.end("client")
        line = Line(self.net.clock, end, received, ended)
        end.connect_ex(self.place)
        return line


class Model(Side):
    """A model, without any weather."""

    def __init__(self, product: Product) -> None:
        self.net = Network(Clock(), Random(0), Weather(slowest=0.0))
        steady: Any = SimpleNamespace(random=lambda: 0.25, choice=lambda values: values[0])
        self._broker = Broker("a", product._replace(twofold=False), b"1.2", self.net, History(), steady)
        self._broker.slowness, self._broker.prefetch = 0.0, 1000
        self._broker.start()
        self.place = self._broker.place

    def settle(self, seconds: float) -> None:
        """Let time pass."""
        self.net.clock.run(self.net.clock.now + QUIET + seconds)

    def kill(self) -> None:
        """Kill it, and start it again."""
        self._broker.kill(0)
        self._broker.start()


class Real(Side):
    """A broker that runs. `running` is one of `tests.e2e.brokers`."""

    def __init__(self, running: brokers.Broker) -> None:
        self._running = running
        self.place = ("127.0.0.1", running.port)
        self._runner = asyncio.Runner()
        self.net = real.Network(real.Clock(self._runner.get_loop()))
        self._lines: list[Line] = []
        self._until = 0.0

    def connect(self, received: Callable[[bytes], None], ended: Callable[[str], None]) -> Line:
        """Connect."""

        def heard(data: bytes) -> None:
            received(data)
            if data.strip(b"\r\n"):  # more than heart-beats
                self._until = max(self._until, time.monotonic() + QUIET)

        self._lines.append(super().connect(heard, ended))
        return self._lines[-1]

    def settle(self, seconds: float) -> None:
        """Read until nothing but heart-beats has come for a while."""
        self._until = time.monotonic() + QUIET + seconds
        while (left := self._until - time.monotonic()) > 0:
            self._runner.run(asyncio.sleep(left))

    def kill(self) -> None:
        """Kill it, and wait until it is up again."""
        self._running.kill()
        self._running.start()
        self._running.wait_until_up()

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()
        self._runner.close()


@contextmanager
def run(name: str) -> Iterator[Real]:
    """Run a broker. Raises `brokers.Absent`."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "authority").mkdir()
        credentials = Authority(Path(folder) / "authority", "authority").issue(name)
        with brokers.INSTALLED[name](Path(folder) / name, credentials) as running:
            side = Real(running)
            yield side
            side.close()


def recorded(name: str) -> dict[str, list[str]]:
    """Return what a broker wrote when it was recorded, by the titles of the conversations."""
    name = MODELS[name].name
    parts = ("\n" + (RECORDED / f"{name}.txt").read_text()).split("\n== ")[1:]
    return {part.split("\n")[0]: part.rstrip().split("\n")[1:] for part in parts}


def differences(
    product: Product, expected: dict[str, list[str]], found: dict[str, list[str]]
) -> dict[str, str]:
    """Return what differs, by title: `-` is what only the broker wrote, `+` what only the model did."""
    mark = "\0" if product.marks else " redelivered:true"  # what is not compared
    shown = {}
    for title, seen in expected.items():
        one, other = ([line.replace(mark, "") for line in each] for each in (seen, found.get(title, [])))
        if one != other:
            lines = unified_diff(one, other, n=50, lineterm="")
            shown[title] = "\n".join([f"== {title}", *list(lines)[3:]])
    return shown


def main() -> int:
    """Play, compare and print. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.models", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep what the brokers write")
    parser.add_argument("brokers", nargs="*", help=f"of {' '.join(MODELS)}")
    options = parser.parse_args()
    asked = conversations()
    status = 0
    for name in options.brokers or MODELS:
        product = MODELS[name]
        try:
            with run(name) as side:
                said = play_all(asked, Model(product))
                expected = play_all(asked, side)
                # What a broker does now and then is no difference: once more.
                differ = differences(product, expected, said)
                doubts = [each for each in asked if each.title in differ]
                if doubts:
                    expected |= play_all(doubts, side, "n")
        except brokers.Absent as absent:
            sys.stdout.write(f"{name} is not compared: it {absent}\n")
            continue
        if options.record and name == product.name:
            text = "\n\n".join(["\n".join([f"== {title}", *lines]) for title, lines in expected.items()])
            (RECORDED / f"{name}.txt").write_text(text + "\n")
        found = differences(product, expected, said).values()
        told = [*found, f"{name}: {len(found)} of {len(asked)} conversations differ"]
        sys.stdout.write("\n\n".join(told) + "\n")
        status = status or bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
