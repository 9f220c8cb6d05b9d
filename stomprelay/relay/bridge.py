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
        alike = source.padded == target.padded and source.escaped_names == target.escaped_names
        self._only_cr = alike and (source.reads ^ target.writes) <= {b"\r"}

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
            if not (frame.plain or not self._judges or (self._only_cr and self._without_cr(frame))):
                head = self._respelled(frame, edit, session)
            elif edit is AS_IT_IS:
                head = None
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
        lines = b"\n" + frame.data[frame.head : frame.body]
        for name in edit.drop:
            needle = b"\n%b:" % name
            while (at := lines.find(needle)) >= 0:
                lines = lines[:at] + lines[lines.find(b"\n", at + 1) :]
        head = [frame.command]
        for name, value in edit.add:
            self._say(name, value, head, session)
        head.append(lines[1:])
        return b"\n".join(head)

    def _respelled(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """A new head for a frame that has something to escape, or to escape otherwise: line by line, for most
        lines are plain.
        """
        dropped = tuple([name + b":" for name in edit.drop])
        padded = self.source.padded
        crlf = frame.crlf
        lines = [frame.command]
        for name, value in edit.add:
            self._say(name, value, lines, session)
        for line in frame.head_lines.split(b"\n"):
            if dropped and line.startswith(dropped):
                continue
            if b"\\" in line or b"\r" in line or line.count(b":") != 1 or (padded and b" " in line):
                if line:
                    name, value = self.source.read_line(line, crlf=crlf)
                    self._say(name, value, lines, session)
            else:
                lines.append(line)
        lines.append(b"\n")
        return b"\n".join(lines)

    def _say(self, name: bytes, value: bytes, lines: list[bytes], session: Session) -> None:
        """Append a header line for the target; what it cannot say is settled by the policy for losses."""
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
        lines.append(target.write_line(name, value))

    def _refuse_loss(self, name: bytes) -> None:
        if self.loss is Loss.REJECT:
            shown = name[:64].decode("utf-8", "backslashreplace")
            raise Refused("a header cannot be said in the other version", f"it is {shown!r}")
