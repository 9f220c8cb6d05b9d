"""Frames from one dialect to another.

Headers are taken out, put in front, or respelled where their escapes differ; all else passes as it came. Between equal
versions the broker judges a client's frames, else the bridge does.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

from stomprelay.relay.bridge.steps import AS_IT_IS, NOTHING, Edit, Pair, count_selector, steps_between
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.session.session import Session
from stomprelay.wire.dialect import PROTOCOL_HEADERS, Dialect, Headers
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import END, Frame
from stomprelay.wire.names import (
    BEGIN,
    CLIENT_COMMANDS,
    CONTENT_LENGTH,
    DISCONNECT,
    RECEIPT_HEADER,
    SUBSCRIBE,
)
from stomprelay.wire.spelling import Spelling

_ORDINARY: Final = bytes(byte for byte in range(256) if byte not in b":\n\\\r")


def _blank(unfit: bytes) -> bytes:
    return b" " * len(unfit)


def _percent(unfit: bytes) -> bytes:
    return b"".join([b"%%%02X" % byte for byte in unfit])


@cache
def _having(names: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Matches a header line with one of these names, and the LF in front of it."""
    return re.compile(rb"\n(?:%b):[^\n]*" % b"|".join(map(re.escape, names)))


class Bridge:
    """Frames of `source` for a leg of `target`. Stateless: one serves every session of its pair.

    `tracked`: account is kept of MESSAGEs. `judges`: the pair's. `spelling`: for runs where it judges. `facing`: the
    way of a broker that gets frames as they came.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        loss: LossPolicy = LossPolicy.REPLACE,
        *,
        selectors: bool = True,
        tracked: bool = False,
        facing: Dialect | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.loss = loss
        self.tracked = tracked
        self.steps = steps_between(source, target, tracked=tracked)
        self._pair = Pair(source, target, selectors, tracked)
        self.judges = self._pair.judges
        alike = not source.padded and source.escaped_names == target.escaped_names
        # Both versions escape names, but one of the sides leaves them as they are.
        self._raw_names = (
            source.escaped_names != target.escaped_names and bool(source.reads) and bool(target.reads)
        )
        self._only_cr = alike and (source.reads ^ target.writes) <= {b"\r"}
        self.spelling = Spelling(source, target, alike=self._only_cr)
        self._heard: Dialect | None = None
        trimmed = facing is not None and facing.trims_cr and not source.crlf
        if facing is not None and (trimmed or b"\\" in facing.writes - source.reads):
            self._heard = replace(facing, reads=facing.writes)

    def with_steps(self, steps: dict[bytes, Callable[[Pair, Frame, Session], Edit]]) -> "Bridge":
        """Return the same bridge with other steps, by command."""
        other = Bridge(
            self.source, self.target, self.loss, selectors=self._pair.selectors, tracked=self.tracked
        )
        other.steps = steps
        return other

    def carry(self, frame: Frame, session: Session) -> bytes:
        """Return the bytes for the other leg, empty where the frame is not for it. Raises as `head` does."""
        head = self.head(frame, session)
        if not head:
            return frame.wire if head is None else b""
        return head + frame.data[frame.body : frame.after]

    def compose(self, command: bytes, headers: Headers, session: Session) -> bytes:
        """Return a frame of the relay's in the client's name, without a body and `content-length`. Raises `Refused`."""
        if command is SUBSCRIBE:
            count_selector(self._pair, headers, session)
        if self._heard is not None:
            asked = next((value for name, value in headers if name == RECEIPT_HEADER), None)
            self._note(asked, self._heard, session)
        lines = [
            self._line(name, value, command, session) for name, value in headers if name != CONTENT_LENGTH
        ]
        return b"\n".join([command, *filter(None, lines), b""]) + b"\n" + END

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """Return the frame by which the relay leaves a broker, whose RECEIPT says that it has read all before."""
        return self.compose(DISCONNECT, [(RECEIPT_HEADER, receipt)], session)

    def without(self, frame: Frame, name: bytes, session: Session) -> bytes:
        """Return the bytes of a frame's new head, without its header `name`. Raises as `head` does."""
        edit = Edit((name,))
        if frame.crlf or (self.judges and not frame.plain):
            return self._respelled(frame, edit, session)
        return self._edited(frame, edit, session)

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """Return a frame's new head with its blank line; None: it passes as it came; b"": it is not for the other leg.
        Raises `ProtocolError` or `Refused`.
        """
        memo = frame.memo
        if memo is not None and memo is session.memo:
            return session.memo_head
        step = self.steps.get(frame.command)
        traces = session.traces
        try:
            edit = AS_IT_IS if step is None else step(self._pair, frame, session)
            if edit is NOTHING:
                return b""
            alike = frame.plain or not self.judges or (self._only_cr and self._without_cr(frame))
            if alike and edit is AS_IT_IS:
                head = None
            elif not alike or frame.crlf:
                head = self._respelled(frame, edit, session)
            else:
                head = self._edited(frame, edit, session)
            if self._heard is not None and not frame.plain:
                self._note(frame.header(RECEIPT_HEADER, self.source), self._heard, session)
        except StompError as error:
            raise error.asked_for(frame.header(RECEIPT_HEADER, self.source)) from None
        if memo is not None and session.traces == traces:
            session.memo, session.memo_head = memo, head
        return head

    def misreads(self, receipts: bytes) -> bool:
        """Whether one of these raw receipts may be another to the other side, which reads it as it came."""
        return self._heard is not None and b"\\" in receipts

    def _note(self, receipt: bytes | None, heard: Dialect, session: Session) -> None:
        """Note a receipt that the broker is asked for where it takes it for another."""
        if receipt is None:
            return
        taken = heard.decode(RECEIPT_HEADER, self.target.encode(receipt))
        if taken != receipt:
            session.misread(receipt, taken)

    @staticmethod
    def _without_cr(frame: Frame) -> bool:
        data, head, body = frame.data, frame.head, frame.body
        return data.find(b"\r", head - 2, body) < 0 and data.find(b"\\r", head, body) < 0

    def _edited(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return a new head for a frame whose lines mean the same in both dialects."""
        return self._opening(frame, edit, session) + self._cut(frame, edit)

    def _respelled(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return the head with those values respelled that the target escapes differently."""
        crlf = frame.crlf
        head = self._cut(frame, edit)
        lines = head.split(b"\n")
        marks = head.translate(None, _ORDINARY).split(b"\n")
        padded = self.source.padded and b" " in head
        for at in range(1, len(lines) - 2):
            if marks[at] != b":" or (padded and b" " in lines[at]):
                name, value = self.source.read_line(lines[at], crlf=crlf)
                lines[at] = self._line(name, value, frame.command, session)
        lines[0] = self._opening(frame, edit, session)
        lines[-2] = b""
        if b"" in lines[1:-2]:
            lines[1:-2] = filter(None, lines[1:-2])
        return b"\n".join(lines)

    @staticmethod
    def _cut(frame: Frame, edit: Edit) -> bytes:
        """Return the header lines and blank line that the edit keeps, without the command line."""
        lines = frame.data[frame.head - 1 : frame.body]
        return _having(edit.drop).sub(b"", lines) if edit.drop else lines

    def _opening(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return the command line and the headers that the edit puts in front, without the last LF."""
        if not edit.add:
            return frame.command
        added = [self._line(name, value, frame.command, session) for name, value in edit.add]
        return b"\n".join([frame.command, *added])

    def _line(self, name: bytes, value: bytes, command: bytes, session: Session) -> bytes:
        """Return a header line without LF, empty for one that is left out. For the inexpressible see `LossPolicy`."""
        target = self.target
        if not self.judges:
            return target.write_line(name, value)  # as a peer of the same version spelled it
        spelled = self.spell_name(name)
        if spelled is None:
            self._refuse_loss(name)
            session.lose("loss_name")
            return b""
        if not target.speakable(value):
            # A changed id or destination would be another one.
            self._refuse_loss(name, always=name in PROTOCOL_HEADERS and command in CLIENT_COMMANDS)
            session.lose("loss_value")
            value = target.replace_line_ends(value, _percent if self.loss is LossPolicy.PERCENT else _blank)
        return b"%b:%b" % (spelled, target.encode(value))

    def spell_name(self, name: bytes) -> bytes | None:
        """Return a decoded header name in the target's spelling; None where it has none. Where both versions have the
        source's spelling it is kept, as consumers may know it.
        """
        target = self.target
        if self._raw_names:
            if target.escaped_names:
                if target.spelled(name):
                    return name
            elif name and target.encode(name) == self.source.encode(name):
                return target.encode(name)
        if not target.nameable(name):
            return None
        return target.encode(name) if target.escaped_names else name

    def _refuse_loss(self, name: bytes, *, always: bool = False) -> None:
        if always or self.loss is LossPolicy.REJECT:
            raise Refused("a header cannot be said in the other version", "it is", quoted=name)


_PARTING: Final = b"%b\ntransaction:relay-parting" % BEGIN


class Parting(Bridge):
    """A bridge to a broker that gives no RECEIPT for DISCONNECT. One that a client asks for is a BEGIN's."""

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """As `Bridge.head`."""
        head = super().head(frame, session)
        if frame.command is not DISCONNECT or frame.raw(RECEIPT_HEADER) is None:
            return head
        return _PARTING + (
            frame.data[frame.head - 1 : frame.body] if head is None else head[len(DISCONNECT) :]
        )

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """As `Bridge.leave`."""
        return b"%b\nreceipt:%b\n\n%b" % (_PARTING, receipt, END)
