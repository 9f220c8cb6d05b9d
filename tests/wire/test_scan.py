"""The compiled scanner beside the Python decoder: the same frames, the same errors, whatever comes and however."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire import decoder as module
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, V1_1, V1_2, Dialect, demanding_utf8
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, MESSAGE, SEND
from stomprelay.wire.run import Rule, Rules, Run
from tests import strategies
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
TIGHT: Final = Limits(headers=2, header_line=12, body=5)


@pytest.fixture(autouse=True)
def _both(twin: str) -> None:
    """Both decoders are compared here, so once is enough."""
    if twin == "pure":
        pytest.skip("compared with the compiled one")


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
                for found in self.decoder.frames() if rules is None else self.decoder.runs(rules):
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
        frames = list(self.decoder.split(run))
        rule = run.rule
        assert len(frames) == run.count
        assert b"".join([frame.wire for frame in frames]) == run.wire
        assert (frames[-1].start, frames[-1].head) == (run.last, run.head)
        assert all(frame.data is run.data for frame in frames)
        assert {frame.command for frame in frames} == {run.command}
        assert not any(frame.raw(name) is not None for frame in frames for name in rule.unless)
        assert all(frame.plain for frame in frames) or not rule.plain
        wanted = [tuple(frame.raw(name) for name in rule.wants) for frame in frames]
        if rule.needs:
            assert not any(None in values for values in wanted)
        if len(rule.wants) == 1:
            assert run.values == [value for (value,) in wanted if value is not None]
        else:
            assert run.values == (wanted if rule.wants else [])
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
        made.append(Rule(command, unless, wants, needs, draw(st.booleans())))
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


@settings(max_examples=20 * settings().max_examples)
@given(st.data())
def test_any_stream_in_any_pieces(data: st.DataObject) -> None:
    """The same frames, memos, errors and states, and the frames of runs are those that come one by one."""
    dialect = data.draw(st.sampled_from(DIALECTS))
    chunks = data.draw(strategies.chunkings(data.draw(streams(dialect))))
    commands = data.draw(st.sampled_from([ANY, ANY, CLIENT_COMMANDS, BROKER_COMMANDS, frozenset()]))
    same(chunks, dialect, data.draw(limits), commands, data.draw(rules()))
