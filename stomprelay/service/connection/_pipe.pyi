from collections.abc import Callable

from twisted.internet import tcp

from stomprelay.relay.counting import DestinationCounter
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.connection.relay_driver import Recording
from stomprelay.session.session import Session
from stomprelay.wire.frame import Frame
from stomprelay.wire.run import Run

def send(connection: tcp.Connection, data: bytes) -> None: ...

class Pipe:
    source: LegProtocol
    target: LegProtocol
    frames: int

    def __init__(
        self,
        source: LegProtocol,
        target: LegProtocol,
        scan: Callable[[bytes, int], Frame | Run | None],
        takes: Callable[[Run], bool],
        trails: bool,
        seconds: Callable[[], float],
        failed: Callable[[Exception], None],
        recording: Recording | None = None,
        counter: DestinationCounter | None = None,
        session: Session | None = None,
    ) -> None: ...
    def open(self) -> None: ...
    def shut(self) -> None: ...
    def take(self) -> tuple[int, int, int, float]: ...
    def __call__(self) -> Exception | None: ...
    def hand_on(self, data: bytes, more: bool) -> None: ...
