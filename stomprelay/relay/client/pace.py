"""How fast a client's frames may go on: what its session has of the token buckets that it shares with others."""

from math import inf
from typing import Final

from stomprelay.relay.forward import TURN
from stomprelay.relay.model.rates import Buckets, Limit, Limiter, TokenBucket

NOW: Final = -inf
"""Nothing is waited for."""


class Pace:
    """Takes from `buckets` what the session is to carry next, and waits until it may.

    Ask `ready` first. Where it is, carry at most `frames` frames and feed at most `size` bytes, after `begin` and
    before `done`. `until`: when to ask again; `NOW` while nothing was taken. `held_by` is the bucket that made it wait
    last, `told` whether that was noted. One `ready` takes no more than a part of a second's worth, so what a session
    keeps from others is little.
    """

    __slots__ = ("_begun", "_buckets", "_early", "_since", "frames", "held_by", "size", "told", "until")

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._begun = 0
        self._early = 0
        self._since = 0.0
        self.frames = self.size = 0
        self.until = NOW
        self.held_by: TokenBucket | None = None
        self.told = False

    @property
    def waiting(self) -> bool:
        """Whether the session waits for tokens."""
        return self.until > NOW

    def came_early(self, size: int) -> None:
        """So many bytes were fed before the pace began: they are taken out of the buckets with the next ones."""
        self._early = size

    def ready(self, size: int, now: float) -> bool:
        """Whether more may be carried now, of which `size` bytes wait to be fed. Otherwise ask again at `until`. Raises
        `StompError` for the session to end with, where a bucket refuses what it has no tokens for.
        """
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
        early, self._early = self._early, 0
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
        """Return how many frames may be carried now, and how many bytes fed; they are spent. Call `done` next."""
        spent = self.frames, self.size
        self.frames = self.size = 0
        self.until = NOW
        return spent

    def done(self, frames: int, size: int, *, begun: bool) -> None:
        """So many frames and bytes of those were not needed. `begun`: bytes of a further frame wait. One token is kept
        for it: to be put back and taken again for each part of a long frame would have others wait for nothing.
        """
        if begun and frames:
            self._begun = 1
            frames -= 1
        for each in self._buckets:
            each.give_back(frames if each.limit is Limit.FRAMES else size)

    def leave(self) -> None:
        """The session is over, or has another pace: put back what was taken and not spent."""
        frames, size = self.begin()
        begun, self._begun = self._begun, 0
        self.done(frames + begun, size, begun=False)


def pace_of(limiter: Limiter | None, address: str | None, user: str, now: float) -> Pace | None:
    """Return the pace of such a client of the limiter's listener; None where nothing limits what it sends."""
    buckets = () if limiter is None else limiter.buckets(now, address, user)
    return Pace(buckets) if buckets else None
