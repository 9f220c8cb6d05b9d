"""How long a relay takes for a plain chunk of some size: what the work for any other one is measured by."""

from math import inf
from time import thread_time
from typing import Final

from stomprelay.relay import inputs
from stomprelay.relay.effects import Open
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay

_SEND: Final = b"SEND\ndestination:/queue/a\n\n%b\0"
_SIZES: Final = (64, 512, 4096, 32768, 262144)
_ROUNDS: Final = 20


class Plain:
    """Call it with a size in bytes: it returns seconds, measured when it was made."""

    def __init__(self) -> None:
        front = Listener(
            "plain", "tcp:61613", Upstream("plain", alone(Broker("tcp://plain", "tcp:plain:61613")))
        )
        relay = Relay(front, b"plain", Counters())
        relay.handle(inputs.Opened(), 0.0)
        opened = relay.received(relay.client, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0", 0.0)
        broker = next(effect.leg for effect in opened if isinstance(effect, Open))
        relay.handle(inputs.BrokerConnected(broker), 0.0)
        relay.received(broker, b"CONNECTED\nversion:1.2\n\n\0", 0.0)
        self._times: list[tuple[int, float]] = []
        for size in _SIZES:
            frame = _SEND % (b"x" * max(min(100, size // 2), size // 50))  # few enough for one turn
            chunk = frame * max(1, size // len(frame))
            best = inf
            for _ in range(_ROUNDS):
                began = thread_time()
                relay.received(relay.client, chunk, 0.0)
                best = min(best, thread_time() - began)
            self._times.append((len(chunk), best))

    def __call__(self, size: int) -> float:
        """Return the seconds for a plain chunk of this size; between two sizes that were measured, the larger one."""
        for measured, seconds in self._times:
            if size <= measured:
                return seconds
        measured, seconds = self._times[-1]
        return seconds * size / measured
