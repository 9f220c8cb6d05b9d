"""The errors of frames, each with the text that the peer is sent.

StompError
    FrameError      the bytes are not a frame
    LimitError      the bytes are more than we take
    ProtocolError   a frame that may not come here or now
    Refused         a correct frame that cannot be sent to the other side

`visible` makes text that a peer chose safe to show: in the log, in a terminal, in a label of a metric.
"""


def visible(text: str) -> str:
    """Return a peer's text as one line, with an escape for each character that is not printable."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else repr(each)[1:-1] for each in text])


class StompError(Exception):
    """The reason a connection ends. `message`: the ERROR frame's header `message`, one line. `explanation`: its body.

    The code that catches it sends an ERROR frame (with `receipt-id: receipt`) and closes the leg. `message` and
    `detail` may be logged. `quoted` are bytes of the peer that only the peer may be shown: they may be a secret.
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
        """The body of the ERROR for the peer: `detail`, and the beginning of the peer's own bytes, in ASCII."""
        if self.quoted is None:
            return self.detail
        shown = repr(self.quoted[:32].decode("ascii", "backslashreplace"))
        return f"{self.detail}: {shown}" if self.detail else shown

    def asked_for(self, receipt: bytes | None) -> "StompError":
        """Set the receipt that the bad frame asked for, and return this error."""
        self.receipt = receipt
        return self


class FrameError(StompError):
    """The bytes cannot be read as a frame of the leg's version."""


class LimitError(StompError):
    """A head, a line or a body is larger than the leg's `Limits`."""


class ProtocolError(StompError):
    """A well-formed frame that is not allowed in this state, or lacks a header it must have."""


class Refused(StompError):
    """A frame that the other leg cannot express, and that the configuration does not allow the relay to drop."""
