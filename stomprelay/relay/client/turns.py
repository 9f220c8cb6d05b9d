"""A client's unread bytes: they wait for a broker, for their turn, or for tokens of shared buckets."""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf
from typing import Final

from stomprelay.relay.effects import TURN, Outbox, Pass
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.model.rates import Buckets, Limit, TokenBucket
from stomprelay.relay.single import Single
from stomprelay.session.effects import Event, GiveWay, Note, Pause, Resume
from stomprelay.session.leg import Leg, LegState
from stomprelay.wire.run import Passing, Run

Flow = Single | Fanout
"""What joins a client to its brokers. Its methods raise `StompError` if the session cannot go on."""

NOW: Final = -inf
"""A time in the past: there is nothing to wait for."""


@dataclass(slots=True, eq=False, repr=False)
class Pace:
    """Takes from `buckets` the tokens for what the session will carry next, and waits until these may be used.

    Ask `ready`. If True, carry at most `frames` frames and feed at most `size` bytes, between `begin` and `done`.
    `until`: when to ask again; `NOW` while no tokens are taken. `held_by`: the bucket that the session waits for.
    `told`: the wait was logged. `early`: bytes that were fed before the pace began; the next `ready` takes their
    tokens, too.
    """

    _buckets: Buckets
    frames: int = 0
    size: int = 0
    until: float = NOW
    held_by: TokenBucket | None = None
    told: bool = False
    early: int = 0
    _begun: int = 0
    _passing: tuple[Passing, Passing] | None = None
    _since: float = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the session waits for tokens."""
        return self.until > NOW

    def passing(self, passing: Passing) -> Passing:
        """Return these rules, limited to runs for which there are tokens. Frames of other runs are read one by one."""
        if self._passing is not None and self._passing[0] is passing:
            return self._passing[1]

        def takes(run: Run) -> bool:
            wanted = [
                (each, run.count if each.limit is Limit.FRAMES else run.after - run.start)
                for each in self._buckets
            ]
            if self.waiting or self._begun or self.early or not all(each.has(some) for each, some in wanted):
                return False
            if not passing.takes(run):
                return False
            for each, some in wanted:
                each.spend(some)
            return True

        self._passing = passing, Passing(passing.rules, takes)
        return self._passing[1]

    def ready(self, size: int, now: float) -> bool:
        """Return whether `size` bytes may be carried; else ask again at `until`. Raises `StompError`: refused."""
        if not self.waiting:
            self._take(size, now)
        if now < self.until:
            return False
        if self.held_by is not None and self._since < now:
            self.held_by.tally.seconds += now - self._since
        return True

    def _take(self, size: int, now: float) -> None:
        frames = TURN
        for each in self._buckets:
            if each.limit is Limit.FRAMES:
                frames = min(frames, each.slice, max(int(each.left(now)), 1))
            else:
                size = min(size, each.slice)
        self.frames, self.size, self.until, self._since = frames, size, now, now
        refused = self.held_by = None
        early, self.early = self.early, 0
        begun, self._begun = self._begun, 0
        for each in self._buckets:
            at = each.take(frames - begun if each.limit is Limit.FRAMES else size + early, now)
            if at > now and each.refuses:
                refused = each
            if at > self.until:
                self.until, self.held_by = at, each
        if refused is not None:
            self.leave()
            raise refused.refusal()
        if self.held_by is not None:
            self.held_by.tally.paused += 1

    def begin(self) -> tuple[int, int]:
        """Return how many frames and how many bytes may be carried now. Their tokens are spent. Call `done` next."""
        spent = self.frames, self.size
        self.frames = self.size = 0
        self.until = NOW
        return spent

    def done(self, frames: int, size: int, *, begun: bool) -> None:
        """Give back the tokens of unused frames and bytes. `begun`: keep one token, for a frame that is incomplete."""
        if begun and frames:
            self._begun = 1
            frames -= 1
        for each in self._buckets:
            each.give_back(frames if each.limit is Limit.FRAMES else size)

    def leave(self) -> None:
        """The session has ended or gets another pace: give back all unused tokens."""
        frames, size = self.begin()
        begun, self._begun = self._begun, 0
        self.done(frames + begun, size, begun=False)


@dataclass(slots=True, eq=False, repr=False)
class InputBuffer:
    """A client's unread bytes. If there are `most` bytes or more, the client is not read from. `pace`: how fast they
    may be carried; None: without a limit. `cost`: the kept bytes. `paused`: the buffer stopped reading from the client.

    Call `append` to add bytes, `hold` or `stop` to stop reading, and `paced` after each change.
    """

    _client: Leg
    _outbox: Outbox
    _most: int
    cost: int = 0
    pace: Pace | None = None
    paused: bool = False
    _stopped: bool = False
    # An empty deque has as many bytes as the rest of a session's account. Most sessions never need a deque.
    _chunks: deque[bytes] | None = None
    _at: int = 0

    @property
    def unread(self) -> bool:
        """Whether the client sent bytes that were not carried yet: in this buffer, or in the client's decoder."""
        client = self._client
        return self.cost > 0 or (client.state is LegState.CONNECTED and client.decoder.behind)

    def append(self, data: bytes) -> None:
        """Keep a chunk."""
        if self._chunks is None:
            self._chunks = deque()
        self._chunks.append(data)
        self.cost += len(data)

    def take(self, most: int = 65536) -> bytes:
        """Remove and return the oldest bytes, at most `most`."""
        parts: list[bytes] = []
        chunks = self._chunks
        while chunks and most > 0:
            part = chunks[0][self._at : self._at + most]
            parts.append(part)
            most -= len(part)
            self._at += len(part)
            self.cost -= len(part)
            if self._at == len(chunks[0]):
                chunks.popleft()
                self._at = 0
        if not chunks:
            self._chunks = None
        return b"".join(parts)

    def clear(self) -> None:
        """Forget all chunks: the session is over."""
        self._chunks = None
        self._at = self.cost = 0
        if self.pace is not None:
            self.pace.leave()

    def stop(self) -> None:
        """Stop reading from the client for good. Bytes that have already arrived are still carried."""
        self._stopped = True
        self.hold()

    def hold(self) -> None:
        """Stop reading from the client until `paced` finds that reading may go on."""
        if not self.paused:
            self.paused = True
            self._outbox.put(Pause(self._client))

    def paced(self, flow: Flow) -> None:
        """Stop reading if too much is kept, the flow is `full` or the pace waits. Read again once nothing is kept; if
        there is no broker, once at most half of the limit is kept.
        """
        if self._client.closed:
            return
        waiting = self.pace is not None and self.pace.waiting
        if self.paused:
            keeps = self.cost > 0 and (flow.flowing or self.cost * 2 > self._most)
            if not (keeps or waiting or self._stopped or flow.crowded):
                self.paused = False
                self._outbox.put(Resume(self._client))
        elif waiting or self.cost >= self._most or flow.full:
            self.paused = True
            self._outbox.put(Pause(self._client))


@dataclass(slots=True, eq=False, repr=False)
class Turns:
    """A leg that has more work than one turn allows is `deferred` until its next turn. `allowed`: what may pass without
    the relay, on legs where nothing waits. `deadline`: when to `release` more, in seconds; infinity: never.
    """

    _client: Leg
    _flow: Flow
    _buffer: InputBuffer
    _outbox: Outbox
    deferred: frozenset[Leg] = frozenset()
    allowed: tuple[Pass, ...] = ()
    deadline: float = inf

    def give_way(self, leg: Leg) -> None:
        """Leave the remaining work of this leg to its next turn."""
        if not leg.closed and leg not in self.deferred:
            self.deferred |= {leg}
            self._outbox.put(GiveWay(leg))

    @property
    def readable(self) -> bool:
        """Whether the client's bytes may be carried to brokers now, if the pace allows it."""
        client = self._client
        return client.state is LegState.CONNECTED and self._flow.flowing and client not in self.deferred

    @property
    def held_by(self) -> TokenBucket | None:
        """The bucket whose tokens the client waits for now; None if the client does not wait."""
        pace = self._buffer.pace
        return None if pace is None or self.deadline == inf else pace.held_by

    def release(self, carry: Callable[[float, bytes, int], int], now: float) -> None:
        """Carry bytes of the buffer with `carry`, as the pace allows. Raises `StompError` if the pace refuses more."""
        client, buffer, pace = self._client, self._buffer, self._buffer.pace
        self.deadline = inf
        if pace is None:
            if self.readable:
                carry(now, b"", TURN)
            while buffer.cost and self.readable:
                carry(now, buffer.take(), TURN)
        elif pace.waiting and not self._flow.flowing:
            if pace.ready(0, now):
                pace.leave()  # without a broker nothing can be carried
            else:
                self.deadline = pace.until
        elif buffer.unread and self.readable:
            behind = client.decoder.behind
            if not pace.ready(0 if behind else buffer.cost, now):
                self.deadline = pace.until
                bucket = pace.held_by
                if bucket is not None and not pace.told:
                    pace.told = True
                    facts = {"scope": bucket.scope.value, "limit": bucket.limit.value}
                    text = f"client is read from no faster: {bucket.limit.value}, {bucket.spell()}"
                    self._outbox.put(Note(Event.LIMITED, text, facts))
            else:
                frames, size = pace.begin()
                data = b"" if behind else buffer.take(size)
                frames -= carry(now, data, frames)
                pace.done(frames, size - len(data), begun=client.decoder.buffered > 0 or buffer.cost > 0)
                if client.decoder.behind or (client.state is LegState.CONNECTED and buffer.unread):
                    self.give_way(client)

    def follow(self, flow: Flow) -> None:
        """Another flow has taken the place of the session's."""
        self._flow = flow

    def let_pass(self, able: Collection[Pass]) -> None:
        """Allow the passes in `able`, on legs where nothing waits. Put changes into the outbox."""
        passes = tuple([self._paced(each) for each in able if self._unburdened(each.leg, each.to)])
        if passes != self.allowed:
            legs = {each.leg for each in passes}
            ended = [each for each in self.allowed if each.leg not in legs and not each.leg.closed]
            self._outbox.put(*[Pass(each.leg, each.to, None) for each in ended])
            self._outbox.put(*[each for each in passes if each not in self.allowed])
            self.allowed = passes

    def _paced(self, able: Pass) -> Pass:
        pace = self._buffer.pace
        if pace is None or able.leg is not self._client or able.passing is None:
            return able
        return Pass(able.leg, able.to, pace.passing(able.passing), able.trails)

    def _unburdened(self, leg: Leg, to: Leg) -> bool:
        """Whether both legs are open, and no earlier bytes of `leg` still wait."""
        if leg.state is not LegState.CONNECTED or to.state is not LegState.CONNECTED or leg.gone or to.gone:
            return False
        if leg in self.deferred or leg.decoder.buffered:
            return False
        buffer = self._buffer
        return not (leg is self._client and (buffer.cost or buffer.paused))
