"""What becomes of each frame of a conversation, and why."""

import re
from collections.abc import Callable, Iterator
from copy import copy
from textwrap import indent
from typing import Final

from stomprelay.explain.conversation import FROM_BROKER, Conversation
from stomprelay.explain.visible import visible, without_passcode
from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.bridge.negotiation import asked, bridges_between, profile
from stomprelay.relay.bridge.steps import Edit, Pair
from stomprelay.relay.model.counters import COUNTERS, Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener, LossPolicy
from stomprelay.relay.model.profile import AUTO, Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.complaint import complain, not_stomp
from stomprelay.session.handshake import Accord, Offer, spell_versions
from stomprelay.session.session import Session
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_2
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import ACK, CONNECTED, NACK, OPENING, UNESCAPED, UNSUBSCRIBE

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_BODY_SHOWN: Final = 1000
_REFER_BACK: Final = frozenset({ACK, NACK, UNSUBSCRIBE})
_PARAGRAPH: Final = "   "


class Explanation:
    """One client and one broker, and the frames between them, told one after the other.

    `client` and `broker` are the versions that they speak; None leaves it to the conversation's CONNECT and
    CONNECTED, and means 1.2 until there is one. `refused` counts the frames that could not be carried.
    """

    def __init__(
        self,
        client: bytes | None = None,
        broker: bytes | None = None,
        product: Profile = AUTO,
        loss: LossPolicy = Listener.loss,
    ) -> None:
        self.refused = 0
        self._loss = loss
        self._product = product
        self._accepted = Listener.versions if client is None else frozenset({client})
        self._client = DIALECTS[client] if client else V1_2
        self._broker = DIALECTS[broker] if broker else V1_2
        self._place = Broker("explained", "")
        self._upstream = Upstream(
            "explained",
            alone(self._place),
            versions=frozenset({broker}) if broker else None,
            profile=product,
        )
        self._counters = Counters()
        self._edits: list[tuple[str, Edit]] = []
        self._offer = Offer([], self._accepted, None)
        self._meet()

    def _meet(self) -> None:
        self._session = Session(b"explained", self._client, Listener.unacknowledged, self._counters)
        self._pair()

    def _pair(self) -> None:
        bridges = bridges_between(self._client.version, self._broker.version, self._product.name, self._loss)
        self._spoken = bridges.broker
        self._to_broker = self._telling(bridges.to_broker)
        self._to_client = self._telling(bridges.to_client)

    def _telling(self, bridge: Bridge) -> Bridge:
        """The same way across, and each edit on it is noted."""

        def noted(edit: Callable[[Pair, Frame, Session], Edit]) -> Callable[[Pair, Frame, Session], Edit]:
            def note(dialects: Pair, frame: Frame, session: Session) -> Edit:
                made = edit(dialects, frame, session)
                self._edits.append((edit.__name__.replace("_", " "), made))
                return made

            return note

        twin = copy(bridge)
        twin.steps = {command: noted(edit) for command, edit in bridge.steps.items()}
        return twin

    def told(self, text: bytes) -> Iterator[str]:
        """A paragraph for each frame of a conversation, and one for the versions whenever they were settled."""
        conversation = Conversation(text)
        said = ""
        number = 0
        while (command := conversation.command) is not None:
            if said != (said := self._said()):
                yield said
            number += 1
            from_broker = command in FROM_BROKER
            title = f"{number}. {'broker to client' if from_broker else 'client to broker'}: "
            dialect = self._spoken if from_broker else self._client
            try:
                frame = conversation.frame(V1_0 if command in UNESCAPED else dialect)
            except StompError as error:
                yield "\n".join([title + "what is no frame", *self._failed(error, command)])
                return
            came = [title + frame.command.decode(), f"{_PARAGRAPH}came as", _frame(frame.wire)]
            yield "\n".join([*came, *self._became(frame)])

    def _said(self) -> str:
        versions = f"client {self._client.version.decode()}, broker {self._broker.version.decode()}"
        return f"{versions}, profile {self._product.name}, losses: {self._loss.value}"

    def _became(self, frame: Frame) -> Iterator[str]:
        """What goes out for a frame, and what made the difference."""
        before = dict(self._counters)
        self._edits.clear()
        bridge = self._to_client if frame.command in FROM_BROKER else self._to_broker
        try:
            if frame.command in OPENING:
                out = self._greeted(frame)
            elif frame.command == CONNECTED:
                out = self._answered(frame)
            else:
                out = bridge.carry(frame, self._session)
        except StompError as error:
            yield from self._failed(error, frame.command)
            return
        if out == frame.wire:
            yield f"{_PARAGRAPH}goes out as it came"
        else:
            yield f"{_PARAGRAPH}goes out as"
            yield _frame(out)
            if frame.command in UNESCAPED:
                yield f"{_PARAGRAPH}handshake: each leg settles its own version and heart-beats"
            else:
                yield from self._reasons(frame, out, bridge)
        for name, count in self._counters.items():
            if count != before[name]:
                yield f"{_PARAGRAPH}counted: {name} +{count - before[name]} ({COUNTERS[name]})"

    def _greeted(self, frame: Frame) -> bytes:
        """CONNECT: a new session, in the version that both sides speak."""
        offer = Offer.read(frame)
        self._client = offer.agree(self._accepted)
        self._offer = offer
        self._meet()
        return offer.connect(asked(self._upstream, self._place, self._client), self._upstream.heart_beat)

    def _answered(self, frame: Frame) -> bytes:
        """CONNECTED: the broker's version and product are known, unless they were given."""
        accord = Accord.read(frame)
        self._product = profile(self._upstream, self._place, accord)
        if self._upstream.versions is None:
            self._broker = accord.dialect
        self._pair()
        return accord.connected(self._client, self._offer.terms and Listener.heart_beat, self._session.name)

    def _failed(self, error: StompError, command: bytes) -> Iterator[str]:
        self.refused += 1
        if command in FROM_BROKER:
            error = not_stomp(error)
        supported = spell_versions(self._accepted) if command in OPENING else None
        yield f"{_PARAGRAPH}is refused: both connections end, and the client gets:"
        yield _frame(complain(error, self._client, supported))
        if command in _REFER_BACK:
            yield f"{_PARAGRAPH}(what it refers to has to come earlier in the conversation)"

    def _reasons(self, frame: Frame, out: bytes, bridge: Bridge) -> Iterator[str]:
        """Which steps made the difference, and which lines had to be spelled otherwise."""
        for name, edit in self._edits:
            parts = []
            if gone := [name.decode() for name in edit.drop if frame.raw(name) is not None]:
                parts.append(f"takes out {', '.join(gone)}")
            if edit.add:
                parts.append(f"puts in {', '.join(visible(b':'.join(pair)) for pair in edit.add)}")
            if parts:
                yield f"{_PARAGRAPH}{name}: {'; '.join(parts)}"
        for line, said in _respelled(frame, out, bridge, [edit for _, edit in self._edits]):
            how = "is left out" if said is None else f"is spelled {visible(said)}"
            yield f"{_PARAGRAPH}{visible(line)} {how}"


def _respelled(
    frame: Frame, out: bytes, bridge: Bridge, edits: list[Edit]
) -> Iterator[tuple[bytes, bytes | None]]:
    """The header lines that came and are neither dropped nor the same, each with what it became."""
    source, target = bridge.source, bridge.target
    dropped = {name for edit in edits for name in edit.drop}
    said = _lines(out)[1 + sum(len(edit.add) for edit in edits) :]
    for line in _lines(frame.wire)[1:]:
        if line.partition(b":")[0] in dropped:
            continue
        name, _ = source.read_line(line, crlf=frame.crlf)
        if said and target.nameable(name) and said[0].startswith(target.write_line(name, b"")):
            if said[0] != line:
                yield line, said[0]
            del said[0]
        else:
            yield line, None


def _lines(wire: bytes) -> list[bytes]:
    """The command line and the header lines of a frame, without line ends."""
    head = wire[: _head(wire)].rstrip(b"\r\n")
    return [line.removesuffix(b"\r") for line in head.split(b"\n")]


def _head(wire: bytes) -> int:
    blank = _BLANK_LINE.search(wire)
    assert blank is not None
    return blank.end()


def _frame(wire: bytes) -> str:
    """A frame to look at, its body cut where it is long."""
    end = _head(wire)
    head, body = wire[:end], wire[end:].removesuffix(b"\n").removesuffix(b"\0")
    if wire.startswith(tuple(OPENING)):
        head = without_passcode(head)
    text = visible(head) + visible(body[:_BODY_SHOWN])
    if len(body) > _BODY_SHOWN:
        text += f"... ({len(body)} bytes in all)"
    return indent(f"{text}^@", _PARAGRAPH * 2, lambda _: True)
