"""Frames from one dialect to another.

A bridge is the steps whose facts differ between two dialects. The only ways a head changes are headers taken out
and headers put in front, which the specification allows an intermediary ("Repeated Header Entries"), and
respelling, where the escapes differ and the head has something to escape. All else passes as the slice that came.

Where both legs speak one version the broker judges what a client says. Where they do not, the bridge has to
understand it, so the bridge judges.
"""

from typing import Final

from stomprelay.relay.listener import Loss
from stomprelay.relay.steps import AS_IT_IS, Edit, Pair, steps_between
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Dialect
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE, RECEIPT_HEADER

_ORDINARY: Final = bytes(octet for octet in range(256) if octet not in b":\\\r")
_PERCENT: Final = {b"\n": b"%0A", b"\r": b"%0D"}


class Bridge:
    """Frames of `source` for a leg of `target`. Stateless: one serves every session of its pair.

    `untouched` are the commands whose frames pass as they came, without a look.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        loss: Loss = Loss.REPLACE,
        *,
        selectors: bool = True,
    ) -> None:
        self.source = source
        self.target = target
        self.loss = loss
        self.steps = steps_between(source, target)
        self._pair = Pair(source, target, selectors)
        self._judges = self._pair.judges
        self.untouched = frozenset[bytes]() if self._judges else frozenset({MESSAGE})
        alike = not source.padded and source.escaped_names == target.escaped_names
        self._only_cr = alike and (source.reads ^ target.writes) <= {b"\r"}
        self._unescapes = not source.padded and not target.writes

    def carry(self, frame: Frame, session: Session) -> bytes:
        """What the other leg is written for a frame. Raises as `head` does."""
        head = self.head(frame, session)
        return frame.wire if head is None else head + frame.data[frame.body : frame.after]

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """The new head of a frame, blank line included, before its body as it came; None: all of it as it came.

        Raises `ProtocolError` or `Refused` for a frame that cannot be carried.
        """
        memo = frame.memo
        if memo is not None and memo is session.memo:
            return session.memo_head
        step = self.steps.get(frame.command)
        traces = session.traces
        try:
            edit = AS_IT_IS if step is None else step(self._pair, frame, session)
            alike = frame.plain or not self._judges or (self._only_cr and self._without_cr(frame))
            if alike and edit is AS_IT_IS:
                head = None
            elif not alike or frame.crlf:
                head = self._respelled(frame, edit, session)
            else:
                head = self._edited(frame, edit, session)
        except StompError as error:
            error.receipt = frame.header(RECEIPT_HEADER, self.source)
            raise
        if memo is not None and session.traces == traces:
            session.memo = memo
            session.memo_head = head
        return head

    @staticmethod
    def _without_cr(frame: Frame) -> bool:
        data, head, body = frame.data, frame.head, frame.body
        return data.find(b"\r", head - 2, body) < 0 and data.find(b"\\r", head, body) < 0

    def _edited(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """A new head for a frame whose lines mean the same in both dialects."""
        lines = self._cut(frame, edit)
        return b"%b%b" % (self._added(frame, edit, session), lines)

    def _respelled(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """A new head for a frame that has something to escape, or to escape otherwise."""
        lines = self._cut(frame, edit)
        # Toward a side without escapes only lines with a backslash change; find goes straight to them.
        if self._unescapes and b"\r" not in lines:
            pieces = [self._added(frame, edit, session)]
            done = 0
            while (at := lines.find(b"\\", done)) >= 0:
                start = lines.rfind(b"\n", done, at)
                pieces.append(lines[done:start])
                done = lines.find(b"\n", at)
                self._say(*self.source.read_line(lines[start + 1 : done]), pieces, session)
            pieces.append(lines[done:])
            return b"".join(pieces)
        padded = self.source.padded
        crlf = frame.crlf
        pieces = [self._added(frame, edit, session)]
        for line in lines[1 : -3 if lines.endswith(b"\n\r\n") else -2].split(b"\n"):
            if line.translate(None, _ORDINARY) != b":" or (padded and b" " in line):
                if line:
                    self._say(*self.source.read_line(line, crlf=crlf), pieces, session)
            else:
                pieces.append(b"\n")
                pieces.append(line)
        pieces.append(b"\n\n")
        return b"".join(pieces)

    @staticmethod
    def _cut(frame: Frame, edit: Edit) -> bytes:
        """The header lines that stay and the blank line, behind the LF of the command line."""
        lines = b"\n" + frame.data[frame.head : frame.body]
        for name in edit.drop:
            needle = b"\n%b:" % name
            while (at := lines.find(needle)) >= 0:
                lines = lines[:at] + lines[lines.find(b"\n", at + 1) :]
        return lines

    def _added(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """The command line and the headers put in front, without the last LF."""
        if not edit.add:
            return frame.command
        pieces = [frame.command]
        for name, value in edit.add:
            self._say(name, value, pieces, session)
        return b"".join(pieces)

    def _say(self, name: bytes, value: bytes, pieces: list[bytes], session: Session) -> None:
        """Append an LF and a header line for the target; what it cannot say is settled by the policy for losses."""
        target = self.target
        if not target.nameable(name):
            self._refuse_loss(name)
            session.lose("loss_name")
            return
        if not target.speakable(value):
            self._refuse_loss(name)
            session.lose("loss_value")
            for octet in (b"\n", b"\r"):
                if octet not in target.writes:
                    value = value.replace(octet, _PERCENT[octet] if self.loss is Loss.PERCENT else b" ")
        pieces.append(b"\n")
        pieces.append(target.write_line(name, value))

    def _refuse_loss(self, name: bytes) -> None:
        if self.loss is Loss.REJECT:
            shown = name[:64].decode("utf-8", "backslashreplace")
            raise Refused("a header cannot be said in the other version", f"it is {shown!r}")
