"""What can be wrong with a frame, each error with the text that the peer is sent.

StompError
    FrameError      the bytes are not a frame
    LimitError      the bytes are more than we take
    ProtocolError   a frame that may not come here or now
    Refused         a right frame that the other side cannot be given

`visible` is how text that a peer chose is shown to people: in the log, in a terminal, in a label of a metric.
"""


def visible(text: str) -> str:
    """Return text that may hold words of a peer as one line: letters of all languages as they are, and an escape for
    each character that is not printable. So nobody can begin another line, move a cursor or turn the text around.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])


class StompError(Exception):
    """The reason a connection ends. `message` is the ERROR frame's `message` header, one line; `explanation` its body.

    Whoever catches one sends an ERROR frame with both (and `receipt-id: receipt` when the frame asked for a
    receipt), then closes the leg that sent the bad bytes. `message` and `detail` may stand in a log. `quoted` are
    bytes of the peer that the reason is about: they may be a secret in the wrong place, so only the peer itself is
    shown them.
    """

    def __init__(
        self, message: str, detail: str = "", *, quoted: bytes | None = None, receipt: bytes | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.quoted = quoted
        self.receipt = receipt

    @property
    def explanation(self) -> str:
        """What the peer is told beside `message`: `detail`, and the beginning of what it sent, in ASCII."""
        if self.quoted is None:
            return self.detail
        shown = repr(self.quoted[:32].decode("ascii", "backslashreplace"))
        return f"{self.detail}: {shown}" if self.detail else shown

    def asked_for(self, receipt: bytes | None) -> "StompError":
        """Return the error itself, now naming the receipt that the bad frame asked for."""
        self.receipt = receipt
        return self


class FrameError(StompError):
    """The bytes cannot be read as a frame of the leg's version."""


class LimitError(StompError):
    """A head, a line or a body is larger than the leg's `Limits`."""


class ProtocolError(StompError):
    """A well-formed frame that is not allowed in this state, or lacks a header it must have."""


class Refused(StompError):
    """A frame that has no representation on the other leg and that the configuration does not allow to be dropped."""
