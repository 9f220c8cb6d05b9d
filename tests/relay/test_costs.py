"""What a frame costs does not depend on what the client said before, nor does what is kept of it.

Costs are lines of Python that are executed, which is the same number on every machine. What a peer names compares
itself in Python, so that a search in C costs lines for each thing that it looks at.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

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


Act = Callable[[Stage, int], object]
"""What happens: with one number of n, or with n itself."""

Script = Callable[[Stage, int], Iterator[int]]
"""Says what there has to be first, then yields how many frames each part of the rest has, before it is said: those are
what is measured.
"""

SEND = b"SEND\ndestination:/queue/a\n%b\nhello\0"
ASKING = SEND % b"receipt:r\n"
SUBSCRIBE = b"SUBSCRIBE\nid:%d\ndestination:/queue/%d\nack:%b\n\n\0"
SUBSCRIBES: Final = b"SUBSCRIBE\nid:{}\ndestination:/queue/{}\nack:client\n\n\0"
UNSUBSCRIBES: Final = b"UNSUBSCRIBE\nid:{}\n\n\0"
DELIVERED: Final = b"MESSAGE\nmessage-id:m{}\ndestination:/queue/{}\n\nx\0"
BEGIN, COMMIT, ABORT = (b"%b\ntransaction:%%b\n\n\0" % command for command in (b"BEGIN", b"COMMIT", b"ABORT"))
INSIDE = b"transaction:t\n"


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


def _said(frame: bytes, who: Callable[..., None] = Stage.says) -> Act:
    """Somebody sends this; `{}` in it is the number."""
    return lambda stage, at: who(stage, frame.replace(b"{}", b"%d" % at))


def _all(frame: bytes) -> Act:
    """The client sends n of these."""
    return lambda stage, n: [_said(frame)(stage, at) for at in range(n)]


class Part(NamedTuple):
    """What is measured: `act`, which sends so many `frames`, for each number; or only so many `times`."""

    act: Act
    frames: int = 1
    times: int | None = None
    newest: bool = False


def _script(*parts: Part, first: Act = lambda stage, n: None) -> Script:
    """`first` happens with n, and then each part."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        first(stage, n)
        for part in parts:
            numbers = range(n if part.times is None else part.times)
            for at in reversed(numbers) if part.newest else numbers:
                yield part.frames
                part.act(stage, at)

    return script


def _each(
    *frames: bytes, first: bytes = b"", who: Callable[..., None] = Stage.says, newest: bool = False
) -> Script:
    """`first` is said so many times, then the frames, which are measured; `{}` in them is the number."""
    part = Part(_said(b"".join(frames), who), len(frames), newest=newest)
    return _script(part, first=_all(first) if first else lambda stage, n: None)


ONE_RECEIPT: Final = _script(Part(_said(ASKING)), Part(_said(RECEIPT % b"r", Stage.each_hears)))


def _beside_an_old_one(stage: Stage, n: int) -> Iterator[int]:
    _all(SEND % b"")(stage, n)
    for at in range(n):
        yield 3
        stage.says(SEND % b"")
        stage.hears(RECEIPT % (b"relay-session-receipt-%d" % (n + at + 1)))
        stage.hears(RECEIPT % b"nobody-asked")


def _only_one_is_left(stage: Stage, n: int) -> None:
    _all(SUBSCRIBES)(stage, n)
    _all(UNSUBSCRIBES)(stage, n - 1)


def _delivered(mode: bytes, then: bytes = b"\n") -> Act:
    """N messages wait for their ACKs; then the client says this."""

    def act(stage: Stage, n: int) -> None:
        stage.says(SUBSCRIBE % (0, 0, mode))
        for at in range(n):
            stage.hears(_message(at))
        stage.says(then)

    return act


def _acks(state: str, mode: bytes, *, backwards: bool = False, more: bytes = b"") -> Script:
    acks = Part(lambda stage, at: stage.says(_ack(state, at, more=more)), newest=backwards)
    end = Part(_said((ABORT if more else COMMIT) % b"t"), times=1)
    return _script(acks, end, first=_delivered(mode, BEGIN % b"t"))


def _last_and_abort(state: str) -> Script:
    def script(stage: Stage, n: int) -> Iterator[int]:
        said = BEGIN % b"t", _ack(state, n - 1, more=INSIDE), ABORT % b"t"
        _delivered(b"client", b"".join(said))(stage, n)
        for _ in range(_ROUNDS):
            yield 3
            stage.says(*said)

    return script


def _holes(state: str) -> Script:
    """Every other delivery is settled for good, the others come back together; then the last is acknowledged again and
    again, and given back in pieces.
    """

    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(b"client", BEGIN % b"even" + BEGIN % b"odd")(stage, n)
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
        _delivered(mode, SUBSCRIBE % (1, 1, mode))(stage, n)
        for at in range(n, 2 * n):
            yield 2
            stage.hears(_message(at, 1))
            stage.says(_ack(state, at, 1))

    return script


def _ends_and_begins(stage: Stage, at: int) -> None:
    """Messages of two subscriptions; one of these ends and begins anew after each few."""
    stage.says(SUBSCRIBE % (1, 1, b"client-individual"))
    stage.hears(_message(2 * at, 0), _message(2 * at + 1, 1))
    stage.says(b"UNSUBSCRIBE\nid:1\n\n\0")


def _one_message(state: str, more: bytes = b"") -> Script:
    """One message-id on many subscriptions."""

    def first(stage: Stage, n: int) -> None:
        for at in range(n):
            stage.says(SUBSCRIBE % (at, 0, b"client-individual"))
            stage.hears(_message(at, at, 7))
        stage.says(BEGIN % b"t")

    return _script(Part(lambda stage, at: stage.says(_ack(state, 7, at, more))), first=first)


def _one_id_again(state: str) -> Script:
    """One message, again and again on subscriptions of one id, each of which ends without an ACK."""

    def first(stage: Stage, n: int) -> None:
        for at in range(n):
            stage.says(SUBSCRIBE % (0, 0, b"client-individual"))
            stage.hears(_message(at, 0, 7))
            stage.says(b"UNSUBSCRIBE\nid:0\n\n\0")

    return _script(Part(_said(_ack(state, 7, 0))), first=first)


def _one_transaction(first: Act = lambda stage, n: None) -> Script:
    begin, end = (Part(_said(frame % b"t"), times=1) for frame in (BEGIN, ABORT))
    return _script(begin, Part(_said(SEND % INSIDE)), end, first=first)


def _beyond(stage: Stage, n: int) -> Iterator[int]:
    """MESSAGEs that were on their way when as many were unsettled as may be."""
    ended = SUBSCRIBE % (1, 1, b"client") + b"UNSUBSCRIBE\nid:1\n\n\0"
    _delivered(b"client", ended)(stage, n - 1)
    stage.hears(_message(n, 1))
    yield 2 * _ROUNDS
    stage.hears(*[_message(n + 1 + at, at % 2) for at in range(2 * _ROUNDS)])


def _crowded(stage: Stage, n: int) -> Iterator[int]:
    """UNSUBSCRIBE, while as much is unsettled as may be: others' deliveries are not gone through."""
    _delivered(b"client")(stage, n)
    for at in range(1, _ROUNDS + 1):
        stage.says(SUBSCRIBE % (at, at, b"client"))
        yield 1
        stage.says(b"UNSUBSCRIBE\nid:%d\n\n\0" % at)


def _told_again(frame: bytes) -> Script:
    """The next broker is sent n of these."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        _all(frame)(stage, n)
        yield n
        stage.moves()

    return script


def _delivered_again(state: str, mode: bytes) -> Script:
    """The same messages by the next broker, each of them acknowledged twice."""

    def script(stage: Stage, n: int) -> Iterator[int]:
        _delivered(mode)(stage, n)
        stage.moves()
        for at in range(n):
            yield 1
            stage.hears(_message(n + at, 0, at))
        for at in (*range(n), *range(n)):
            yield 1
            stage.says(_ack(state, at))

    return script


def _is_away(stage: Stage, _: int) -> None:
    stage.play.broker_goes(at="b")


def _both_deliver(stage: Stage, n: int) -> None:
    """Two brokers in turn, to one subscription whose ACKs are cumulative."""
    stage.says(SUBSCRIBE % (0, 0, b"client"))
    for at in range(n):
        stage.play.broker_says(_message(at), at="ab"[at % 2])
        stage._forget()


def _cases() -> Iterator[tuple[str, str, Script]]:
    sends = _each(SEND % b"")
    ours = RECEIPT % b"relay-session-receipt-{}"
    newest = _each(ours, first=SEND % b"", who=Stage.hears, newest=True)
    yield "confirm", "SEND", sends
    yield "confirm", "RECEIPT of the relay's own, the newest first", newest
    yield "confirm", "SEND, its RECEIPT and one of nothing beside many unconfirmed", _beside_an_old_one
    yield "cumulative confirm", "SEND", sends
    yield "cumulative confirm", "SEND with one receipt id, then as many RECEIPTs", ONE_RECEIPT
    asking = SEND % b"receipt:{}\n"
    newest = _each(RECEIPT % b"{}", first=asking, who=Stage.each_hears, newest=True)
    for state in ("plain", "1.0 to 1.2", "failover", "fan-out"):
        yield state, "SEND", sends
        yield state, "SEND with a receipt that nobody gives", _each(asking)
        yield state, "RECEIPT, the newest first", newest
        yield state, "SEND with one receipt id, then as many RECEIPTs", ONE_RECEIPT
        yield state, "SUBSCRIBE", _each(SUBSCRIBES)
        yield state, "UNSUBSCRIBE, the oldest first", _each(UNSUBSCRIBES, first=SUBSCRIBES)
        yield state, "BEGIN and a SEND in it, all left open", _each(BEGIN % b"{}", SEND % b"transaction:{}\n")
        yield state, "BEGIN, SENDs, ABORT", _one_transaction()
    messages = Part(lambda stage, at: stage.hears(_message(at)))
    for state in ("1.2 to 1.1", "1.0 to 1.2", "failover", "fan-out"):
        awaited = _script(messages, first=lambda stage, n: stage.says(SUBSCRIBE % (0, 0, b"client")))
        yield state, "MESSAGE that awaits its ACK", awaited
        for mode in (b"client", b"client-individual"):
            name = f"ACK in a transaction, mode {mode.decode()}, then ABORT"
            yield state, f"ACK, mode {mode.decode()}", _acks(state, mode)
            yield state, name, _acks(state, mode, more=INSIDE)
        yield state, "ACK, mode client-individual, the newest first", _acks(state, mode, backwards=True)
        yield state, "BEGIN, ACK of the last, ABORT, again and again", _last_and_abort(state)
        yield state, "the same where every other one is settled already", _holes(state)
    ends = _script(
        Part(_ends_and_begins, 4), first=lambda stage, n: stage.says(SUBSCRIBE % (0, 0, b"client-individual"))
    )
    for state in ("1.2 to 1.1", "failover 1.0", "failover 1.1", "failover"):
        for mode in (b"client", b"client-individual"):
            name = f"MESSAGE and its ACK beside many unsettled, mode {mode.decode()}"
            yield state, name, _each_at_once(state, mode)
        yield state, "SUBSCRIBE, MESSAGEs, UNSUBSCRIBE beside many unsettled", ends
    for state in ("1.2 to 1.1, crowded", "failover, crowded", "fan-out, crowded"):
        yield state, "UNSUBSCRIBE beside many unsettled messages", _crowded
        yield state, "MESSAGE beyond what may be unsettled", _beyond
    for state in ("1.0 to 1.2", "failover 1.0", "failover 1.1"):
        yield state, "ACK of one message-id on many subscriptions", _one_message(state)
        yield state, "the same in a transaction", _one_message(state, INSIDE)
        yield state, "ACK of one message-id that ended subscriptions left", _one_id_again(state)
    unnamed, named = SUBSCRIBES.replace(b"id:{}\n", b""), b"UNSUBSCRIBE\ndestination:/queue/{}\n\n\0"
    newest = _each(named, first=unnamed, newest=True)
    yield "1.0 to 1.2", "UNSUBSCRIBE by destination, the newest first", newest
    delivered = _each(DELIVERED, first=SUBSCRIBES, who=Stage.hears, newest=True)
    yield "1.2 to 1.0", "MESSAGE without a subscription", delivered
    only = Part(_said(b"MESSAGE\nmessage-id:m{}\ndestination:/queue/else\n\nx\0", Stage.hears), times=_ROUNDS)
    yield (
        "1.2 to 1.0",
        "MESSAGE for the only subscription that is left",
        _script(only, first=_only_one_is_left),
    )
    yield "failover", "SEND that is sent again to the next broker", _told_again(ASKING)
    yield "failover", "SUBSCRIBE that is sent again to the next broker", _told_again(SUBSCRIBES)
    for state in ("failover 1.0", "failover 1.1"):
        for mode in (b"client", b"client-individual"):
            name = f"MESSAGE that comes again, then two ACKs, mode {mode.decode()}"
            yield state, name, _delivered_again(state, mode)
    comes = Part(lambda stage, _: found(stage.play), times=1)
    without = _script(Part(_said(SEND % b"")), comes, first=lambda stage, _: stage.play.broker_goes())
    yield "failover", "SEND while there is no broker", without
    receipts = _each(RECEIPT % b"r", first=ASKING, who=Stage.hears)
    yield "fan-out", "RECEIPT of one id, by one of two brokers", receipts
    acks = Part(lambda stage, at: stage.says(_ack("fan-out", at)))
    yield "fan-out", "ACK, mode client, of deliveries of both", _script(acks, first=_both_deliver)
    several = Part(_said(SUBSCRIBES + SEND % b"" + BEGIN % b"{}" + ABORT % b"{}"), 4)
    name = "SUBSCRIBE, SEND, BEGIN and ABORT while one broker is away"
    yield "fan-out", name, _script(several, first=_is_away)
    yield "fan-out", "BEGIN, SENDs, ABORT while one broker is away", _one_transaction(_is_away)
    takes = Part(lambda stage, _: stage.play.broker_is_unblocked(at="b"), times=1)
    blocked = _script(Part(_said(ASKING)), takes, first=lambda stage, _: stage.play.broker_is_blocked(at="b"))
    yield "fan-out", "SEND while one broker takes nothing", blocked


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
