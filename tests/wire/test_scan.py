"""The compiled scanner beside the Python decoder: the same frames, the same errors, whatever comes and however."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire import decoder as module
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, V1_1, V1_2, Dialect, demanding_utf8
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, MESSAGE, SEND
from stomprelay.wire.run import Rule, Rules, Run
from tests import strategies
from tests.passing import barred, letting, run_of, split
from tests.wire.decoding import ANY

SPECIFIED: Final = (V1_0, V1_1, V1_2)
LENIENT: Final = replace(V1_2, strict=False)
ODD: Final = (
    LENIENT,
    replace(V1_0, strict=False),
    replace(V1_2, raw_cr=True),
    replace(V1_1, reads=frozenset({b"\n"})),
    replace(V1_0, crlf=True, raw_cr=False),
    replace(V1_2, padded=True),
)
DIALECTS: Final = (*SPECIFIED, *map(demanding_utf8, SPECIFIED), *ODD, demanding_utf8(LENIENT))


TWIN: Final = "compiled"


@contextmanager
def pure() -> Iterator[None]:
    """The decoder in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        yield


class Told(NamedTuple):
    """All that a frame says of itself; `shared`: how many frames before it have the same memo."""

    command: bytes
    offsets: tuple[int, ...]
    wire: bytes
    plain: bool
    memo: bytes | None
    shared: int


class Outcome(NamedTuple):
    """What came of a stream: after each chunk its frames and the decoder's state, and what ended it."""

    chunks: list[tuple[list[Told], int, bool, bool, bytes]]
    error: tuple[object, ...] | None


class Stream:
    """One decoder and what it tells of each chunk."""

    def __init__(self, dialect: Dialect, limits: Limits, commands: frozenset[bytes]) -> None:
        self.decoder = Decoder(dialect, commands, limits)
        self._memos: dict[int, tuple[bytes, int]] = {}

    def told(self, frame: Frame) -> Told:
        """The frame as values."""
        shared = 0
        if frame.memo is not None:
            _, shared = self._memos.get(id(frame.memo), (b"", 0))
            self._memos[id(frame.memo)] = frame.memo, shared + 1
        offsets = frame.start, frame.head, frame.body, frame.end, frame.after
        return Told(frame.command, offsets, frame.wire, frame.plain, frame.memo, shared)

    def outcome(self, chunks: Sequence[bytes], rules: Rules | None = None) -> Outcome:
        """What comes of these chunks: as `frames()` has it, or with rules as `runs()` has it, split."""
        seen = []
        frames: list[Told] = []
        try:
            for chunk in chunks:
                frames = []
                self.decoder.feed(chunk)
                for found in self.decoder.frames() if rules is None else self.decoder.runs(letting(*rules)):
                    if isinstance(found, Run):
                        frames += self.of_run(found)
                    else:
                        frames.append(self.told(found))
                decoder = self.decoder
                seen.append((frames, decoder.buffered, decoder.behind, decoder.trails, decoder.begun))
        except StompError as error:
            seen.append((frames, self.decoder.buffered, self.decoder.behind, self.decoder.trails, b""))
            said = type(error), error.message, error.detail, error.quoted, error.receipt
            return Outcome(seen, said)
        return Outcome(seen, None)

    def of_run(self, run: Run) -> list[Told]:
        """The frames of a run, each of which the rule lets pass."""
        frames = split(run, self.decoder)
        rule = run.rule
        assert len(frames) == run.count
        assert b"".join([frame.wire for frame in frames]) == run.wire
        assert (frames[-1].start, frames[-1].head) == (run.last, run.head)
        assert all(frame.data is run.data for frame in frames)
        assert {frame.command for frame in frames} == {run.command}
        assert run.parts == run_of(rule, frames).parts
        if rule.parts:
            receipts = [b"r-%d" % number for number in range(run.count)]
            asking = [
                b"%breceipt:%b\n%b"
                % (run.data[each.start : each.head], receipt, run.data[each.head : each.after])
                for each, receipt in zip(frames, receipts, strict=True)
            ]
            assert run.asking(receipts) == b"".join(asking)
            assert list(run.ends) == [each.after for each in frames]
        assert not any(barred(rule, frame) for frame in frames)
        assert all(frame.plain for frame in frames) or not rule.plain
        values = [frame.raw(name) for frame in frames for name in rule.wants]
        assert not (rule.needs and None in values)
        assert run.values == b"".join(value + b"\n" for value in values if value is not None)
        return [self.told(frame) for frame in frames]


def same(
    chunks: Sequence[bytes],
    dialect: Dialect,
    limits: Limits,
    commands: frozenset[bytes] = ANY,
    rules: Rules = (),
) -> None:
    """Assert that both decoders say the same, frame by frame and in runs."""
    with pure():
        expected = Stream(dialect, limits, commands).outcome(chunks)
    assert Stream(dialect, limits, commands).outcome(chunks) == expected
    if rules:
        runs = Stream(dialect, limits, commands).outcome(chunks, rules)
        assert _unshared(runs) == _unshared(expected)


def _unshared(outcome: Outcome) -> object:
    """The outcome without the memos, which are of no use where frames come in runs."""
    chunks = [([told[:4] for told in frames], *rest) for frames, *rest in outcome.chunks]
    return chunks, outcome.error


names: st.SearchStrategy[bytes] = st.one_of(
    st.sampled_from([b"destination", b"receipt", b"foo", b"id", b"message-id", b"content-length", b"x" * 70]),
    strategies.octets.filter(lambda name: name and b":" not in name and b"\n" not in name),
)


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """Rules for some commands."""
    commands = draw(st.sets(st.sampled_from([SEND, MESSAGE, b"SUBSCRIBE", b"RECEIPT", b"ACK"]), min_size=1))
    made = []
    for command in sorted(commands):
        wants = tuple(draw(st.lists(names, max_size=3, unique=True)))
        needs = len(wants) != 1 or draw(st.booleans())
        unless = tuple(draw(st.lists(names, max_size=2)))
        plain, parts, sure = (draw(st.booleans()) for _ in range(3))
        made.append(Rule(command, unless, wants, needs, plain, parts, sure=sure))
    return tuple(made)


limits: st.SearchStrategy[Limits] = st.one_of(
    st.just(Limits()),
    st.builds(Limits, headers=st.integers(0, 4), header_line=st.integers(0, 40), body=st.integers(0, 20)),
)


@st.composite
def streams(draw: st.DrawFn, dialect: Dialect) -> bytes:
    """A stream that is good, of another dialect, repeated, damaged in places, or no STOMP at all."""
    stream = draw(
        st.one_of(
            strategies.streams(dialect),
            strategies.streams(dialect),
            strategies.streams(draw(st.sampled_from(SPECIFIED))),
            strategies.garbage,
        )
    )
    stream *= draw(st.sampled_from([1, 1, 2, 3]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(stream)))
        put = draw(
            st.one_of(
                strategies.octets, st.sampled_from([b"\0", b"\n\n", b"\ncontent-length:1", b"\nfoo: 1"])
            )
        )
        stream = stream[:at] + put + stream[at + draw(st.integers(0, 2)) :]
    return stream


@settings(max_examples=3 * settings().max_examples)
@given(st.data())
def test_any_stream_in_any_pieces(data: st.DataObject) -> None:
    """The same frames, memos, errors and states, and the frames of runs are those that come one by one."""
    dialect = data.draw(st.sampled_from(DIALECTS))
    chunks = data.draw(strategies.chunkings(data.draw(streams(dialect))))
    commands = data.draw(st.sampled_from([ANY, ANY, CLIENT_COMMANDS, BROKER_COMMANDS, frozenset()]))
    same(chunks, dialect, data.draw(limits), commands, data.draw(rules()))


@given(st.data())
def test_a_chunk_that_is_not_joined(data: st.DataObject) -> None:
    """Where the end of an unfinished frame is known, the rest of the chunk stays as it is: the same comes of it."""
    dialect = data.draw(st.sampled_from(DIALECTS))
    stream = data.draw(streams(dialect))
    chunks = data.draw(strategies.chunkings(stream))
    expected = _unplaced(Stream(dialect, Limits(), ANY).outcome(chunks))
    for context in (nullcontext(), pure()):
        with context, pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_WORTH_A_CUT", 1)
            assert _unplaced(Stream(dialect, Limits(), ANY).outcome(chunks)) == expected
            wires, error = _by_turns(dialect, chunks)
        # An LF that comes with the next chunk belongs to the frame where that chunk was fed before it was taken.
        assert [wire.removesuffix(b"\n") for wire in wires] == [
            told.wire.removesuffix(b"\n") for frames, *_ in expected.chunks for told in frames
        ]
        assert (error and error.message) == (expected.error and expected.error[1])


def _by_turns(dialect: Dialect, chunks: Sequence[bytes]) -> tuple[list[bytes], StompError | None]:
    """What comes when one frame is taken for each chunk: what is fed meanwhile waits for its turn."""
    decoder = Decoder(dialect, ANY, Limits())
    wires = []
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            wires += [frame.wire for frame in islice(decoder.frames(), 1)]
        while decoder.behind:
            wires += [frame.wire for frame in islice(decoder.frames(), 1)]
    except StompError as error:
        return wires, error
    return wires, None


def _unplaced(outcome: Outcome) -> Outcome:
    """The outcome without the places in the chunks."""
    chunks = [([told._replace(offsets=()) for told in frames], *rest) for frames, *rest in outcome.chunks]
    return Outcome(cast("Any", chunks), outcome.error)


# ------------------------------------------------------------------ runs


WITHOUT_RECEIPT: Final = Rule(SEND, unless=(b"receipt",), wants=(b"destination",))


def taken(wire: bytes, *rules: Rule, dialect: Dialect = V1_2) -> list[Frame | Run]:
    """What comes of one chunk."""
    decoder = Decoder(dialect, ANY, Limits())
    decoder.feed(wire)
    return list(decoder.runs(letting(*rules)))


def test_neighbours_come_as_one() -> None:
    """All that the rule lets pass, with the LFs behind their NULs, and the value of each; unless they are recorded."""
    (run,) = taken(b"SEND\ndestination:/a\n\nx\0\nSEND\nfoo:1\ndestination:/b\n\ny\0" * 2, WITHOUT_RECEIPT)
    assert isinstance(run, Run)
    assert (run.command, run.count, run.values) == (SEND, 4, b"/a\n/b\n" * 2)
    assert (run.start, run.after) == (0, len(run.data))
    assert run.data[run.last :].startswith(b"SEND\nfoo:1")
    assert run.data[run.head :].startswith(b"foo:1")
    decoder = Decoder(V1_2, ANY, Limits())
    recorded: list[Frame | Run] = []
    decoder.record(recorded)
    decoder.feed(b"SEND\n\n\0" * 3)
    assert list(decoder.runs(letting(Rule(SEND)))) == recorded
    assert len(recorded) == 3


@pytest.mark.parametrize(
    "line", [b"foo:2", b"FOO:2", b"foo :2", b" x:1", b"x\t:1", b"Content-length:1", b"Bar:1"], ids=repr
)
def test_a_header_that_brokers_may_read_otherwise(line: bytes) -> None:
    """Where the rule says so, its frame needs a look: a broker may go by it in place of what was found."""
    wire = b"SEND\nfoo:1\ncontent-length:1\n%b\n\nx\0"
    rule = Rule(SEND, (b"bar",), (b"foo",))
    assert isinstance(taken(wire % line, rule)[0], Run)
    assert isinstance(taken(wire % line, rule._replace(sure=True))[0], Frame)
    assert isinstance(taken(wire % b"y:foo", rule._replace(sure=True))[0], Run)


def test_the_dialect_may_change_between_two_frames() -> None:
    """As after CONNECT: what is behind it in the same chunk is read in the new one, by the new rules."""
    decoder = Decoder(V1_0, frozenset({b"CONNECT"}), Limits())
    decoder.feed(b"CONNECT\n\n\0" + b"SEND\na:\\t\n\n\0" * 2)
    found = decoder.runs(letting(Rule(SEND)))
    next(found)
    decoder.expect(V1_2, CLIENT_COMMANDS)
    with pytest.raises(StompError, match="undefined escape"):
        next(found)


def test_readers_take_turns() -> None:
    """Each frame comes once, whoever asks, and however many were found ahead."""
    decoder = Decoder(V1_2, ANY, Limits())
    decoder.feed(b"".join(b"SEND\na:%d\n\n\0" % number for number in range(100)))
    one, other = decoder.frames(), decoder.frames()
    found = [next(one), next(one), *islice(other, 40), next(one), next(other), *one]
    assert [frame.raw(b"a") for frame in found] == [b"%d" % number for number in range(100)]
    assert list(other) == []


def test_a_run_shows_no_secrets() -> None:
    """Its head may carry some."""
    (run,) = taken(b"SEND\npasscode:hush\n\n\0", Rule(SEND))
    assert repr(run) == "<1 SEND frames, 21 bytes>"


@pytest.mark.parametrize("receipts", [[], [b"1"], [b"1", b"2", b"3"]], ids=["none", "fewer", "more"])
def test_as_many_receipts_as_frames(receipts: list[bytes]) -> None:
    """Others cannot be asked for, nor those of a rule that wanted no parts."""
    for parts in (True, False):
        (run,) = taken(b"SEND\n\n\0SEND\n\n\0", Rule(SEND, parts=parts))
        assert isinstance(run, Run)
        with pytest.raises(ValueError, match="as many"):
            run.asking(receipts or [b"1"])


def test_parts_of_other_data() -> None:
    """No offset is followed out of the data."""
    (run,) = taken(b"SEND\n\n\0", Rule(SEND, parts=True))
    assert isinstance(run, Run)
    run.data = run.data[:-1]
    with pytest.raises(ValueError, match="other data"):
        run.asking([b"1"])
