"""The frames of one chunk on their way from leg to leg."""

from collections.abc import Callable
from typing import NamedTuple

from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DISCONNECT


class Carriage(NamedTuple):
    """What the other leg is written, how many frames were read for it, and what was wrong with the one after them."""

    data: bytes
    frames: int
    failure: StompError | None


def carry(source: Leg, untouched: frozenset[bytes], headed: Callable[[Frame], bytes | None]) -> Carriage:
    """All complete frames of a leg, up to a DISCONNECT, as one write. Neighbours that pass as they came stay one
    slice, and where the whole chunk does, it is not even copied.

    Frames of `untouched` commands pass without a look. Of others `headed` answers the new head; None: it passes as
    it came; nothing at all, b"": it does not pass.
    """
    decoder = source.decoder
    pieces: list[bytes] = []
    data = b""
    start = stop = count = 0
    failure = None
    try:
        for frame in decoder.frames():
            count += 1
            data = frame.data
            head = None if frame.command in untouched else headed(frame)
            if head is None:
                if frame.start != stop:
                    pieces.append(data[start:stop])
                    start = frame.start
                stop = frame.after
            elif head:
                pieces += (data[start:stop], head)
                start = frame.body
                stop = frame.after
            if frame.command is DISCONNECT:
                break
    except StompError as error:
        failure = error
    pieces.append(data[start:stop])
    if stop and stop == len(data) and data[-1] == 0 and source.side is Side.UPSTREAM and decoder.trails:
        # It would come with the next chunk, too late for clients that wait for it.
        pieces.append(b"\n")
    return Carriage(b"".join(pieces), count, failure)
