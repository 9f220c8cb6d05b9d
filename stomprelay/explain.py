"""`stomprelay explain`: reads a client's and a broker's frames from a text, in the order in which they were sent.
Translates them between two versions, and says in words how each frame was changed, and why.
"""

import re
from collections.abc import Iterator
from textwrap import indent
from typing import Final

from stomprelay.relay.bridge import Bridge, Edit, Editing, asked, bridges_between, profile
from stomprelay.relay.model.counters import COUNTERS, Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener, LossPolicy
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.profile import AUTO, Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Accord, Offer, spell_versions
from stomprelay.session.refusal import complain, not_stomp
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_2, Dialect
from stomprelay.wire.errors import FrameError, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    ACK,
    BODIES,
    BROKER_COMMANDS,
    CLIENT_COMMANDS,
    CONNECTED,
    NACK,
    OPENING,
    UNESCAPED,
    UNSUBSCRIBE,
)

FROM_BROKER: Final = BROKER_COMMANDS | {CONNECTED}
FROM_CLIENT: Final = CLIENT_COMMANDS | OPENING

_GAP: Final = re.compile(rb"[\r\n\0]*")
_LAST_LINE_END: Final = re.compile(rb"\r?\n\Z")
_PASSCODE: Final = re.compile(rb"^(passcode:)[^\r\n]*", re.MULTILINE)
_SURROGATES: Final = range(0xDC80, 0xDD00)
_DELETE: Final = 0x7F
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_BODY_SHOWN: Final = 1000
_REFER_BACK: Final = frozenset({ACK, NACK, UNSUBSCRIBE})
_PARAGRAPH: Final = "   "


class Explanation:
    """Explains the frames between one client and one broker. `client` and `broker` are STOMP versions. If a version is
    None, it is 1.2 until CONNECT or CONNECTED names another version. `map`: how frames are said to the broker.
    `refused`: the number of frames that could not be translated.
    """

    def __init__(
        self,
        client: bytes | None = None,
        broker: bytes | None = None,
        product: Profile = AUTO,
        loss: LossPolicy = Listener.loss,
        map: MapSettings | None = None,
    ) -> None:
        self.refused = 0
        self._loss = loss
        self._map = map or MapSettings()
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
        self._start_session()

    def _start_session(self) -> None:
        self._session = Session(b"explained", self._client, Listener.unacknowledged, self._counters)
        self._pair()

    def _pair(self) -> None:
        versions = self._client.version, self._broker.version
        bridges = bridges_between(
            *versions, self._product.name, self._loss, spoken=self._map.at(self._product.name)
        )
        self._spoken = bridges.broker
        self._to_broker = self._noting(bridges.to_broker)
        self._to_client = self._noting(bridges.to_client)

    def _noting(self, bridge: Bridge) -> Bridge:
        """Return a copy of the bridge that also keeps each edit in `_edits`."""

        def noted(edit: Editing) -> Editing:
            def note(between: Bridge, frame: Frame, session: Session) -> Edit:
                made = edit(between, frame, session)
                self._edits.append((edit.__name__.replace("_", " "), made))
                return made

            return note

        return bridge.with_steps({command: noted(edit) for command, edit in bridge.steps.items()})

    def paragraphs(self, text: bytes) -> Iterator[str]:
        """Yield a paragraph for each frame of a text. First and after each change, yield one about the versions."""
        frames = FrameText(text)
        shown = ""
        number = 0
        while (command := frames.command) is not None:
            versions = f"client {self._client.version.decode()}, broker {self._broker.version.decode()}"
            if shown != (shown := f"{versions}, profile {self._product.name}, losses: {self._loss.value}"):
                yield shown
            number += 1
            from_broker = command in FROM_BROKER
            title = f"{number}. {'broker to client' if from_broker else 'client to broker'}: "
            dialect = self._spoken if from_broker else self._client
            try:
                frame = frames.frame(V1_0 if command in UNESCAPED else dialect)
            except StompError as error:
                yield "\n".join([title + "what is no frame", *self._failed(error, command)])
                return
            came = [title + frame.command.decode(), f"{_PARAGRAPH}came as", _frame(frames.said)]
            yield "\n".join([*came, *self._result(frame, frames.said)])

    def _result(self, frame: Frame, said: bytes) -> Iterator[str]:
        """Yield a paragraph's lines: the frame that is sent on, and why it differs from the received frame `said`."""
        before = dict(self._counters)
        self._edits.clear()
        bridge = self._to_client if frame.command in FROM_BROKER else self._to_broker
        try:
            if frame.command in OPENING:
                out = self._connect(frame)
            elif frame.command == CONNECTED:
                out = self._connected(frame)
            else:
                out = bridge.carry(frame, self._session)
        except StompError as error:
            yield from self._failed(error, frame.command)
            return
        if out == said:
            yield f"{_PARAGRAPH}goes out as it came"
        elif not out:
            yield f"{_PARAGRAPH}is not sent on"
        else:
            yield f"{_PARAGRAPH}goes out as"
            yield _frame(out)
            if frame.command in UNESCAPED:
                yield f"{_PARAGRAPH}handshake: each leg settles its own version and heart-beats"
            else:
                yield from self._reasons(frame, said, out, bridge)
        if own := self._session.take_own():
            yield f"{_PARAGRAPH}the relay sends the broker"
            yield _frame(own)
        for name, count in self._counters.items():
            if count != before[name]:
                yield f"{_PARAGRAPH}counted: {name} +{count - before[name]} ({COUNTERS[name]})"

    def _connect(self, frame: Frame) -> bytes:
        """Return the CONNECT that is sent on. Starts a session in the highest common version."""
        offer = Offer.read(frame)
        self._client = offer.agree(self._accepted)
        self._offer = offer
        self._start_session()
        return offer.connect(asked(self._upstream, self._place, self._client), self._upstream.heart_beat)

    def _connected(self, frame: Frame) -> bytes:
        """Return the CONNECTED that is sent on. From now on the broker's version and product are known."""
        accord = Accord.read(frame)
        self._product = profile(self._upstream, self._place, accord, self._offer)
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

    def _reasons(self, frame: Frame, said: bytes, out: bytes, bridge: Bridge) -> Iterator[str]:
        """Yield why `out` differs from `said`: the steps that changed the frame, and the lines with other escapes."""
        for name, edit in self._edits:
            parts = []
            if gone := [name.decode() for name in dict.fromkeys(edit.drop) if frame.raw(name) is not None]:
                parts.append(f"takes out {', '.join(gone)}")
            if edit.add:
                parts.append(f"puts in {', '.join(caret_text(b':'.join(pair)) for pair in edit.add)}")
            if parts:
                yield f"{_PARAGRAPH}{name}: {'; '.join(parts)}"
        for line, sent in _respelled(frame, said, out, bridge, [edit for _, edit in self._edits]):
            how = "is left out" if sent is None else f"is spelled {caret_text(sent)}"
            yield f"{_PARAGRAPH}{caret_text(line)} {how}"


def _respelled(
    frame: Frame, said: bytes, out: bytes, bridge: Bridge, edits: list[Edit]
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the received header lines that were changed, each with its new line; None if the line is removed."""
    dropped = {name for edit in edits for name in edit.drop}
    sent = _lines(out)[1 + sum(len(edit.add) for edit in edits) :]
    for line in _lines(said)[1:]:
        if line.partition(b":")[0] in dropped:
            continue
        name, _ = bridge.source.read_line(line, crlf=frame.crlf)
        spelled = bridge.spell_name(name)
        if sent and spelled is not None and sent[0].startswith(spelled + b":"):
            if sent[0] != line:
                yield line, sent[0]
            del sent[0]
        else:
            yield line, None


def _lines(wire: bytes) -> list[bytes]:
    """Return the command line and the header lines of a frame, without line ends."""
    head = wire[: _head(wire)].rstrip(b"\r\n")
    return [line.removesuffix(b"\r") for line in head.split(b"\n")]


def _head(wire: bytes) -> int:
    blank = _BLANK_LINE.search(wire)
    assert blank is not None
    return blank.end()


def _frame(wire: bytes) -> str:
    """Return a frame as readable text; a long body is shortened."""
    end = _head(wire)
    head, body = wire[:end], wire[end:].removesuffix(b"\n").removesuffix(b"\0")
    if wire.startswith(tuple(OPENING)):
        head = without_passcode(head)
    text = caret_text(head) + caret_text(body[:_BODY_SHOWN])
    if len(body) > _BODY_SHOWN:
        text += f"... ({len(body)} bytes in all)"
    return indent(f"{text}^@", _PARAGRAPH * 2, lambda _: True)


def caret_text(data: bytes) -> str:
    """Return bytes as text: controls except LF as carets (NUL is `^@`), bytes that are not UTF-8 as `<ff>`."""
    return "".join(map(_shown, data.decode("utf-8", "surrogateescape")))


def _shown(character: str) -> str:
    code = ord(character)
    if character == "\n" or character.isprintable():
        return character
    if code in _SURROGATES:
        return f"<{code - 0xDC00:02x}>"
    return "^" + chr(code ^ 0x40) if code <= _DELETE else f"<U+{code:04X}>"


def without_passcode(head: bytes) -> bytes:
    """Return the head of a CONNECT with its passcode masked."""
    return _PASSCODE.sub(rb"\1********", head)


# Reading


class FrameText:
    """Reads frames from a text. Call `command`, then `frame` with the sender's dialect, until `command` is None. In a
    text without a NUL, `^@` stands for NUL. If the last frame has no end, the end is added.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text if b"\0" in text else text.replace(b"^@", b"\0")
        self._at = 0
        self.said = b""
        """The bytes of the last frame as the text has them, with an end."""
        self._decoder = Decoder(V1_0, FROM_CLIENT, Upstream.limits)
        self._decoder.feed(self._text)

    @property
    def command(self) -> bytes | None:
        """Return the command line of the next frame; None at the end of the text."""
        gap = _GAP.match(self._text, self._at)
        self._at = gap.end() if gap else self._at
        if self._at == len(self._text):
            return None
        end = self._text.find(b"\n", self._at)
        return self._text[self._at : None if end < 0 else end].removesuffix(b"\r").removesuffix(b"\0")

    def frame(self, dialect: Dialect) -> Frame:
        """Return the next frame. Raises `StompError` for an invalid frame; after that no more frames can be read."""
        commands = FROM_BROKER if self.command in FROM_BROKER else FROM_CLIENT
        if self._text.find(b"\0", self._at) >= 0:
            self._decoder.expect(dialect, commands)
            frame = next(self._decoder.frames(), None)
            if frame is not None:
                start, self._at = self._at, len(self._text) - self._decoder.buffered
                self.said = self._text[start : self._at]
                return frame
        for text in self._completed():
            decoder = Decoder(dialect, commands, Upstream.limits)
            decoder.feed(text)
            frame = next(decoder.frames(), None)
            if frame is not None:
                self._at = len(self._text)
                self.said = text
                return frame
        raise FrameError("the frame does not end", "content-length says more than there is")

    def _completed(self) -> list[bytes]:
        """Return the texts that the last frame may have after the missing end is added, the likeliest text first."""
        rest = self._text[self._at :]
        blank = _BLANK_LINE.search(rest)
        if blank is None:
            return [rest.rstrip(b"\r\n") + b"\n\n\0"]
        if self.command not in BODIES and not rest[blank.end() :].strip(b"\r\n"):
            return [rest[: blank.end()] + b"\0"]
        head, body = rest[: blank.end()], rest[blank.end() :]
        return [head + _LAST_LINE_END.sub(b"", body) + b"\0", rest + b"\0"]
