"""What is written to one broker of a session: whether that is too much, and how much it was."""

from typing import Protocol

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.service.connection.protocol import LegProtocol


class _Outputs(Protocol):
    """The driver of a session, which looks at all its outputs together."""

    def output_changed(self) -> None: ...
    def output_ended(self, output: "BrokerOutput") -> None: ...


@implementer(IPushProducer)
class BrokerOutput:
    """Whether too much waits to be written to one broker (`full`); it is the producer of that transport."""

    __slots__ = ("_driver", "_reported", "broker", "full", "protocol")

    def __init__(self, driver: _Outputs, protocol: LegProtocol, broker: Broker | None = None) -> None:
        self.protocol = protocol
        self.broker = broker
        self.full = False
        self._driver = driver
        self._reported = False

    def blocked(self, coupled: bool) -> bool:
        """Whether the relay should know that it is full: not while the client is not read for it (`coupled`), unless it
        knows.
        """
        return self.full and (self._reported or not coupled)

    @property
    def quiet(self) -> bool:
        """Whether it is not full, and the relay knows of nothing else."""
        return not (self.full or self._reported)

    @property
    def tally(self) -> BrokerTally:
        """What the broker was sent and what it sent, in bytes."""
        return BrokerTally(sent_bytes=self.protocol.bytes_sent, received_bytes=self.protocol.bytes_received)

    def unreported(self, coupled: bool) -> bool:
        """Whether what was reported to the relay last differs from what `blocked` returns now."""
        return self._reported is not self.blocked(coupled)

    def report(self, coupled: bool) -> bool:
        """Return what `blocked` returns now, and count it as reported to the relay."""
        self._reported = self.blocked(coupled)
        return self._reported

    def pauseProducing(self) -> None:
        """Set `full`: too much waits to be written to the broker."""
        self.full = True
        self._driver.output_changed()

    def resumeProducing(self) -> None:
        """Clear `full`: the transport has room again."""
        self.full = False
        self._driver.output_changed()

    def stopProducing(self) -> None:
        """Forget the output: the transport is closed. The relay gets no `unblocked`."""
        self.full = False
        self._driver.output_ended(self)
