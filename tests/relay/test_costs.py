"""What a frame costs does not depend on what the client said before, nor does what is kept of it.

Costs are lines of Python that are executed, which is the same number on every machine. What a peer names compares
itself in Python, so that a search in C costs lines for each thing that it looks at.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from stomprelay.wire import decoder
from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.frame import Frame
from tests.counting import lines
from tests.playbook import Playbook, joined, listener
from tests.relay.failing import found, started
from tests.relay.frames import RECEIPT
from tests.relay.several import begun, fan_out

pytestmark = pytest.mark.ci  # counting lines of Python is slow
FEW: Final = 50
"""How many there are of everything, and then four times as many."""
_ROUNDS: Final = 20
GROWTH: Final = 1.3
"""More than the logarithms of four times as many; a loop over half of them is more than this."""


class Name(bytes):
    """What a peer sent in a header. To compare it is ten lines of Python."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        for _ in range(5):
            pass
        return bytes.__eq__(self, other)


@pytest.fixture(params=["in runs", "one by one"], autouse=True)
def _taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames come in runs where they can; or one by one, and what they name is a `Name`."""
    if request.param == "in runs":
        return
    raw, headers = Frame.raw, Frame.headers

    def named(frame: Frame, name: bytes) -> bytes | None:
        value = raw(frame, name)
        return None if value is None else Name(value)

    def all_named(frame: Frame, dialect: Dialect) -> Headers:
        return [(name, Name(value)) for name, value in headers(frame, dialect)]

    monkeypatch.setattr(decoder, "SCANNER", None)
    monkeypatch.setattr(Frame, "raw", named)
    monkeypatch.setattr(Frame, "headers", all_named)


def _open(state: str, most: int) -> Playbook:
    """A client that is connected; where it is `crowded` it may owe no more than `most` ACKs."""
    crowded = state.endswith(", crowded")
    settings: dict[str, Any] = {"unacknowledged": most} if crowded else {}
    match state.removesuffix(", crowded").split():
        case ["plain"]:
            return joined(b"1.2", b"1.2", **settings)
        case ["failover", *versions]:
            client = (versions or ["1.2"])[0].encode()
            return started(client, b"1.2" if not versions else versions[-1].encode(), front=settings)
        case ["confirm"]:
            return started(confirm=True)
        case ["cumulative", "confirm"]:
            return started(confirm=True, product="rabbitmq")
        case ["fan-out"]:
            return begun(listener(fan_out(2), **settings))
        case [client, "to", broker]:
            return joined(client.encode(), broker.encode(), **settings)
    raise ValueError(state)


class Stage:
    """A client and its brokers, that say what they are asked to; nobody looks at what they get."""

    def __init__(self, state: str, most: int) -> None:
        self.play = _open(state, most)

    def says(self, *frames: bytes) -> None:
        """The client sends these in one chunk."""
        self.play.client_says(b"".join(frames))
        self._forget()

    def hears(self, *frames: bytes) -> None:
        """The broker sends these, or the first one of several."""
        self.play.broker_says(b"".join(frames), at=self.play.brokers[0].uri if self._several else None)
        self._forget()

    def each_hears(self, frame: bytes) -> None:
        """All brokers send this."""
        for peer in self.play.brokers:
            if peer.closed is None:
                self.play.broker_says(frame, at=peer.uri)
        self._forget()

    def moves(self) -> None:
        """The broker is lost, and another one found."""
        self.play.broker_goes()
        found(self.play)
        self._forget()

    @property
    def _several(self) -> bool:
        return not self.play.relay.coupled

    def _forget(self) -> None:
        for peer in (self.play.client, *self.play.brokers):
            assert peer is not self.play.client or b"ERROR" not in peer.written[:5], peer.written[:200]
            peer.written = b""

    @property
    def kept(self) -> int:
        """Bytes that are kept of the client."""
        assert self.play.relay.session is not None
        return self.play.relay.session.kept.size


Script = Callable[[Stage, int], Iterator[int]]
"""Says what there has to be first, then yields how many frames each part of the rest has, before it is said: those are
what is measured.
"""

SEND = b"SEND\ndestination:/queue/a\n%b\nhello\0"
SUBSCRIBE = b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\nack:%b\n\n\0"
BEGIN, COMMIT, ABORT = (b"%b\ntransaction:%%b\n\n\0" % command for command in (b"BEGIN", b"COMMIT", b"ABORT"))


def _message(number: int, subscription: int = 0, name: int | None = None) -> bytes:
    """A MESSAGE that every version reads alike."""
    head = b"MESSAGE\nsubscription:%d\nmessage-id:m%d\nack:k%d\ndestination:/queue/%d\n\nx\0"
    return head % (subscription, number if name is None else name, number, subscription)


def _ack(state: str, number: int, subscription: int = 0, more: bytes = b"") -> bytes:
    """The ACK of it: the first that was delivered has number 0, and the relay's token 1 where it makes tokens."""
    if "1.0" in state.split()[:2]:
        return b"ACK\nmessage-id:m%d\n%b\n\0" % (number, more)
    if state == "1.2 to 1.1":
        return b"ACK\nid:relay-ack-%d\n%b\n\0" % (number + 1, more)
    if "1.1" in state:
        return b"ACK\nsubscription:%d\nmessage-id:m%d\n%b\n\0" % (subscription, number, more)
    return b"ACK\nid:k%d\n%b\n\0" % (number, more)


def _each(*frames: bytes, first: bytes = b"", who: str = "client", newest: bool = False) -> Script:
    """`first` is said so many times, then the frames, which are measured; `{}` in them is the number."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        for at in range(n if first else 0):
            stage.says(first.replace(b"{}", b"%d" % at))
        for at in reversed(range(n)) if newest else range(n):
            yield len(frames)
            data = b"".join([frame.replace(b"{}", b"%d" % at) for frame in frames])
            if who == "client":
                stage.says(data)
            else:
                (stage.each_hears if who == "all" else stage.hears)(data)

    return script


def _one_receipt(stage: Stage, n: int) -> Iterator[int]:
    yield from _each(SEND % b"receipt:r\n")(stage, n)
    yield from _each(RECEIPT % b"r", who="all")(stage, n)


def _beside_an_old_one(stage: Stage, n: int) -> Iterator[int]:
    for _ in range(n):
        stage.says(SEND % b"")
    for at in range(n):
        yield 3
        stage.says(SEND % b"")
        stage.hears(RECEIPT % (b"relay-session-receipt-%d" % (n + at + 1)))
        stage.hears(RECEIPT % b"nobody-asked")


def _the_only_subscription(stage: Stage, n: int) -> Iterator[int]:
    for at in range(n):
        stage.says(SUBSCRIBE % (at, at, b"client"))
    for at in range(n - 1):
        stage.says(b"UNSUBSCRIBE\nid:%d\n\n\0" % at)
    for at in range(_ROUNDS):
        yield 1
        stage.hears(b"MESSAGE\nmessage-id:m%d\ndestination:/queue/else\n\nx\0" % at)


def _delivered(stage: Stage, n: int, mode: bytes) -> None:
    stage.says(SUBSCRIBE % (0, 0, mode))
    for at in range(n):
        stage.hears(_message(at))


def _acks(state: str, mode: bytes, *, backwards: bool = False, more: bytes = b"") -> Script:
    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(stage, n, mode)
        stage.says(BEGIN % b"t")
        for at in reversed(range(n)) if backwards else range(n):
            yield 1
            stage.says(_ack(state, at, more=more))
        yield 1
        stage.says((ABORT if more else COMMIT) % b"t")

    return script


def _last_and_abort(state: str) -> Script:
    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(stage, n, b"client")
        stage.says(BEGIN % b"t", _ack(state, n - 1, more=b"transaction:t\n"), ABORT % b"t")
        for _ in range(_ROUNDS):
            yield 3
            stage.says(BEGIN % b"t", _ack(state, n - 1, more=b"transaction:t\n"), ABORT % b"t")

    return script


def _holes(state: str) -> Script:
    """Every other delivery is settled for good, the others come back together; then the last is acknowledged again and
    again, and given back in pieces.
    """

    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(stage, n, b"client")
        stage.says(BEGIN % b"even", BEGIN % b"odd")
        for at in range(n - 1):
            stage.says(_ack(state, at, more=b"transaction:%b\n" % (b"odd" if at % 2 else b"even")))
        stage.says(COMMIT % b"odd", ABORT % b"even")
        half = n // 2 // 2 * 2
        for _ in range(_ROUNDS):
            yield 6
            stage.says(BEGIN % b"t", _ack(state, half, more=b"transaction:t\n"))
            stage.says(BEGIN % b"u", _ack(state, n - 1, more=b"transaction:u\n"))
            stage.says(ABORT % b"t", ABORT % b"u")

    return script


def _each_at_once(state: str, mode: bytes) -> Script:
    """Each message is acknowledged before the next one comes, beside others that are not."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(stage, n, mode)
        stage.says(SUBSCRIBE % (1, 1, mode))
        for at in range(n, 2 * n):
            yield 2
            stage.hears(_message(at, 1))
            stage.says(_ack(state, at, 1))

    return script


def _ends_again_and_again(stage: Stage, n: int) -> Iterator[int]:
    """Messages of two subscriptions; one of these ends and begins anew after each few."""
    stage.says(SUBSCRIBE % (0, 0, b"client-individual"))
    for at in range(n):
        yield 4
        stage.says(SUBSCRIBE % (1, 1, b"client-individual"))
        stage.hears(_message(2 * at, 0), _message(2 * at + 1, 1))
        stage.says(b"UNSUBSCRIBE\nid:1\n\n\0")


def _one_message(state: str, more: bytes = b"") -> Script:
    """One message-id on many subscriptions."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        for at in range(n):
            stage.says(SUBSCRIBE % (at, 0, b"client-individual"))
            stage.hears(_message(at, at, 7))
        stage.says(BEGIN % b"t")
        for at in range(n):
            yield 1
            stage.says(_ack(state, 7, at, more))

    return script


def _one_id_again(state: str) -> Script:
    """One message, again and again on subscriptions of one id, each of which ends without an ACK."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        for at in range(n):
            stage.says(SUBSCRIBE % (0, 0, b"client-individual"))
            stage.hears(_message(at, 0, 7))
            stage.says(b"UNSUBSCRIBE\nid:0\n\n\0")
        for _ in range(n):
            yield 1
            stage.says(_ack(state, 7, 0))

    return script


def _one_transaction(stage: Stage, n: int) -> Iterator[int]:
    yield 1
    stage.says(BEGIN % b"t")
    for _ in range(n):
        yield 1
        stage.says(SEND % b"transaction:t\n")
    yield 1
    stage.says(ABORT % b"t")


def _beyond(stage: Stage, n: int) -> Iterator[int]:
    """MESSAGEs that were on their way when as many were unsettled as may be."""
    stage.says(SUBSCRIBE % (0, 0, b"client"), SUBSCRIBE % (1, 1, b"client"), b"UNSUBSCRIBE\nid:1\n\n\0")
    for at in range(n - 1):
        stage.hears(_message(at))
    stage.hears(_message(n, 1))
    yield 2 * _ROUNDS
    stage.hears(*[_message(n + 1 + at, at % 2) for at in range(2 * _ROUNDS)])


def _crowded(stage: Stage, n: int) -> Iterator[int]:
    """UNSUBSCRIBE, while as much is unsettled as may be: others' deliveries are not gone through."""
    stage.says(SUBSCRIBE % (0, 0, b"client"))
    for at in range(n):
        stage.hears(_message(at))
    for at in range(1, _ROUNDS + 1):
        stage.says(SUBSCRIBE % (at, at, b"client"))
        yield 1
        stage.says(b"UNSUBSCRIBE\nid:%d\n\n\0" % at)


def _resent(stage: Stage, n: int) -> Iterator[int]:
    for _ in range(n):
        stage.says(SEND % b"receipt:r\n")
    yield n
    stage.moves()


def _resubscribed(stage: Stage, n: int) -> Iterator[int]:
    for at in range(n):
        stage.says(SUBSCRIBE % (at, at, b"client"))
    yield n
    stage.moves()


def _delivered_again(state: str, mode: bytes) -> Script:
    """The same messages by the next broker, each of them acknowledged twice."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(stage, n, mode)
        stage.moves()
        for at in range(n):
            yield 1
            stage.hears(_message(n + at, 0, at))
        for _ in range(2):
            for at in range(n):
                yield 1
                stage.says(_ack(state, at))

    return script


def _without_broker(stage: Stage, n: int) -> Iterator[int]:
    stage.play.broker_goes()
    for _ in range(n):
        yield 1
        stage.says(SEND % b"")
    yield 1
    found(stage.play)


def _one_broker_away(stage: Stage, n: int) -> Iterator[int]:
    stage.play.broker_goes(at="b")
    for at in range(n):
        yield 4
        stage.says(SUBSCRIBE % (at, at, b"client"), SEND % b"", BEGIN % (b"%d" % at), ABORT % (b"%d" % at))


def _one_transaction_away(stage: Stage, n: int) -> Iterator[int]:
    stage.play.broker_goes(at="b")
    yield from _one_transaction(stage, n)


def _one_broker_blocked(stage: Stage, n: int) -> Iterator[int]:
    stage.play.broker_is_blocked(at="b")
    for _ in range(n):
        yield 1
        stage.says(SEND % b"receipt:r\n")
    yield 1
    stage.play.broker_is_unblocked(at="b")


def _both_deliver(stage: Stage, n: int) -> Iterator[int]:
    """Two brokers in turn, and cumulative ACKs that cover deliveries of both."""
    stage.says(SUBSCRIBE % (0, 0, b"client"))
    for at in range(n):
        stage.play.broker_says(_message(at), at="ab"[at % 2])
        stage._forget()
    for at in range(n):
        yield 1
        stage.says(_ack("fan-out", at))


SUBSCRIBES: Final = b"SUBSCRIBE\nid:{}\ndestination:/queue/{}\nack:client\n\n\0"
UNNAMED: Final = SUBSCRIBES.replace(b"id:{}\n", b"")
DELIVERED: Final = b"MESSAGE\nmessage-id:m{}\ndestination:/queue/{}\n\nx\0"
AWAITED: Final = b"MESSAGE\nsubscription:0\nmessage-id:m{}\nack:k{}\ndestination:/queue/0\n\nx\0"
TOLD: Final = b"UNSUBSCRIBE\n%b\n\n\0"


def _messages(stage: Stage, n: int) -> Iterator[int]:
    stage.says(SUBSCRIBE % (0, 0, b"client"))
    yield from _each(AWAITED, who="broker")(stage, n)


def _cases() -> Iterator[tuple[str, str, Script]]:
    sends = _each(SEND % b"")
    ours = RECEIPT % b"relay-session-receipt-{}"
    yield "confirm", "SEND", sends
    yield (
        "confirm",
        "RECEIPT of the relay's own, the newest first",
        _each(ours, first=SEND % b"", who="broker", newest=True),
    )
    yield "confirm", "SEND, its RECEIPT and one of nothing beside many unconfirmed", _beside_an_old_one
    yield "cumulative confirm", "SEND", sends
    yield "cumulative confirm", "SEND with one receipt id, then as many RECEIPTs", _one_receipt
    for state in ("plain", "1.0 to 1.2", "failover", "fan-out"):
        yield state, "SEND", sends
        yield state, "SEND with a receipt that nobody gives", _each(SEND % b"receipt:{}\n")
        yield (
            state,
            "RECEIPT, the newest first",
            _each(RECEIPT % b"{}", first=SEND % b"receipt:{}\n", who="all", newest=True),
        )
        yield state, "SEND with one receipt id, then as many RECEIPTs", _one_receipt
        yield state, "SUBSCRIBE", _each(SUBSCRIBES)
        yield state, "UNSUBSCRIBE, the oldest first", _each(TOLD % b"id:{}", first=SUBSCRIBES)
        yield state, "BEGIN and a SEND in it, all left open", _each(BEGIN % b"{}", SEND % b"transaction:{}\n")
        yield state, "BEGIN, SENDs, ABORT", _one_transaction
    inside = b"transaction:t\n"
    for state in ("1.2 to 1.1", "1.0 to 1.2", "failover", "fan-out"):
        yield state, "MESSAGE that awaits its ACK", _messages
        for mode in (b"client", b"client-individual"):
            yield state, f"ACK, mode {mode.decode()}", _acks(state, mode)
            yield (
                state,
                f"ACK in a transaction, mode {mode.decode()}, then ABORT",
                _acks(state, mode, more=inside),
            )
        yield state, "ACK, mode client-individual, the newest first", _acks(state, mode, backwards=True)
        yield state, "BEGIN, ACK of the last, ABORT, again and again", _last_and_abort(state)
        yield state, "the same where every other one is settled already", _holes(state)
    for state in ("1.2 to 1.1", "failover 1.0", "failover 1.1", "failover"):
        for mode in (b"client", b"client-individual"):
            name = f"MESSAGE and its ACK beside many unsettled, mode {mode.decode()}"
            yield state, name, _each_at_once(state, mode)
        yield state, "SUBSCRIBE, MESSAGEs, UNSUBSCRIBE beside many unsettled", _ends_again_and_again
    for state in ("1.2 to 1.1, crowded", "failover, crowded", "fan-out, crowded"):
        yield state, "UNSUBSCRIBE beside many unsettled messages", _crowded
        yield state, "MESSAGE beyond what may be unsettled", _beyond
    for state in ("1.0 to 1.2", "failover 1.0", "failover 1.1"):
        yield state, "ACK of one message-id on many subscriptions", _one_message(state)
        yield state, "the same in a transaction", _one_message(state, inside)
        yield state, "ACK of one message-id that ended subscriptions left", _one_id_again(state)
    yield (
        "1.0 to 1.2",
        "UNSUBSCRIBE by destination, the newest first",
        _each(TOLD % b"destination:/queue/{}", first=UNNAMED, newest=True),
    )
    yield (
        "1.2 to 1.0",
        "MESSAGE without a subscription",
        _each(DELIVERED, first=SUBSCRIBES, who="broker", newest=True),
    )
    yield "1.2 to 1.0", "MESSAGE for the only subscription that is left", _the_only_subscription
    yield "failover", "SEND that is sent again to the next broker", _resent
    yield "failover", "SUBSCRIBE that is sent again to the next broker", _resubscribed
    for state in ("failover 1.0", "failover 1.1"):
        for mode in (b"client", b"client-individual"):
            name = f"MESSAGE that comes again, then two ACKs, mode {mode.decode()}"
            yield state, name, _delivered_again(state, mode)
    yield "failover", "SEND while there is no broker", _without_broker
    yield (
        "fan-out",
        "RECEIPT of one id, by one of two brokers",
        _each(RECEIPT % b"r", first=SEND % b"receipt:r\n", who="broker"),
    )
    yield "fan-out", "ACK, mode client, of deliveries of both", _both_deliver
    yield "fan-out", "SUBSCRIBE, SEND, BEGIN and ABORT while one broker is away", _one_broker_away
    yield "fan-out", "BEGIN, SENDs, ABORT while one broker is away", _one_transaction_away
    yield "fan-out", "SEND while one broker takes nothing", _one_broker_blocked


def _measure(state: str, script: Script, n: int) -> tuple[float, int]:
    """Lines a frame, and the most bytes kept."""
    stage = Stage(state, n)
    frames = total = most = 0
    parts = script(stage, n)
    part = next(parts)
    while part:
        frames += part
        following: list[int] = []
        total += lines(lambda: following.append(next(parts, 0)))  # noqa: B023 - called at once
        part = following[0]
        most = max(most, stage.kept)
    return total / frames, most


CASES = [pytest.param(state, script, id=f"{state}: {said}") for state, said, script in _cases()]


@pytest.mark.parametrize(("state", "script"), CASES)
def test_costs_do_not_grow(state: str, script: Script) -> None:
    """Lines a frame at four times as many of everything are those at one time; four times as much is kept of them."""
    (some, kept), (more, then) = _measure(state, script, FEW), _measure(state, script, 4 * FEW)
    assert more <= GROWTH * some
    assert then <= 4.2 * kept + 1024
