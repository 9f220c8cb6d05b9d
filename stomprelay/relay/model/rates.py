"""How often clients may connect, how much they may send, and the token buckets that enforce it."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from stomprelay.wire.errors import StompError

PLACES: Final = 10_000
"""How many addresses, and how many users, have buckets. If there are more, the longest unused are forgotten."""
_LOOKED_AT: Final = 8
"""How many of the oldest places are looked at for each new place, so that full buckets are forgotten first."""
_SLICE: Final = 20
"""A session takes the tokens of one second in at least so many parts: other sessions of its scope get some, too."""


class Scope(Enum):
    """The scope of a limit: which clients share it."""

    LISTENER = "listener"
    ADDRESS = "address"
    USER = "user"

    __hash__ = object.__hash__  # Enum's own is written in Python


class Limit(Enum):
    """The kinds of limits. The values are the keys in the configuration."""

    CLIENTS = "clients"
    CONNECTS = "connects"
    FRAMES = "frames"
    BYTES = "bytes"

    __hash__ = object.__hash__


_WORDS: Final = {
    Scope.LISTENER: "of this listener",
    Scope.ADDRESS: "for one address",
    Scope.USER: "for one user",
}


def spell_limit(scope: Scope, most: float, *, rate: bool = True) -> str:
    """Return a limit in words for the body of an ERROR."""
    return f"the limit {_WORDS[scope]} is {spell_number(most)}{' a second' if rate else ''}"


def spell_number(number: float) -> str:
    """Return a number without unneeded zeros and without an exponent."""
    return str(int(number)) if number == int(number) else f"{number:.3f}".rstrip("0")


@dataclass(frozen=True)
class Rates:
    """What the clients of one scope may do together in a second; None: no limit. `burst`: the seconds whose tokens may
    be used at once. `refuse`: a client that exceeds a rate gets an ERROR; otherwise its data is read more slowly.
    """

    connects: float | None = None
    frames: float | None = None
    bytes: float | None = None
    burst: float = 1.0
    refuse: bool = False

    def share(self, among: int) -> "Rates":
        """Return these rates divided into `among` equal parts."""
        rates = {limit.value: getattr(self, limit.value) for limit in _RATES}
        return replace(self, **{name: rate / among for name, rate in rates.items() if rate is not None})


_UNLIMITED: Final = Rates()
_RATES: Final = (Limit.CONNECTS, Limit.FRAMES, Limit.BYTES)


@dataclass(frozen=True)
class RateLimits:
    """The rates of a listener by scope: for all its clients, for each address, and for each user."""

    listener: Rates = _UNLIMITED
    address: Rates = _UNLIMITED
    user: Rates = _UNLIMITED

    def of(self, scope: Scope) -> Rates:
        """Return the rates of a scope."""
        rates: Rates = getattr(self, scope.value)
        return rates


NO_RATES: Final = RateLimits()
"""No rate is limited."""


@dataclass(slots=True, eq=False, repr=False)
class LimitTally:
    """A limit's effect: how often a session was `paused`, for how many `seconds`, how often a client was `refused`."""

    paused: int = 0
    refused: int = 0
    seconds: float = 0.0


class TokenBucket:
    """A token bucket: `rate` tokens a second come into it. It holds at most `burst` tokens, and is full at first.

    Tokens can be taken before they have come: `take` returns when they may be used. Later takers must wait longer.
    """

    __slots__ = ("_at", "_level", "burst", "limit", "rate", "refuses", "scope", "slice", "tally")

    def __init__(self, scope: Scope, limit: Limit, rates: Rates, tally: LimitTally, now: float) -> None:
        rate: float = getattr(rates, limit.value)
        self.scope = scope
        self.limit = limit
        self.rate = rate
        self.burst = max(rate * rates.burst, 1.0)
        self.refuses = rates.refuse
        self.slice = max(int(min(rate / _SLICE, self.burst)), 1)
        self.tally = tally
        self._level = self.burst
        self._at = now

    def left(self, now: float) -> float:
        """Return how many tokens there are. The number is negative if tokens were taken in advance."""
        if now > self._at:
            self._level = min(self._level + (now - self._at) * self.rate, self.burst)
            self._at = now
        return self._level

    def take(self, tokens: int, now: float) -> float:
        """Take tokens, and return when they may be used: `now` or later. For 0 tokens, this is `now`."""
        self._level = self.left(now) - tokens
        return now if self._level >= 0.0 or not tokens else now - self._level / self.rate

    def has(self, tokens: int) -> bool:
        """Return whether so many tokens may be taken now. Tokens since the last `left` or `take` do not count."""
        return tokens <= min(self._level, self.slice)

    def spend(self, tokens: int) -> None:
        """Take tokens after `has` returned True."""
        self._level -= tokens

    def give_back(self, tokens: int) -> None:
        """Put back unused tokens."""
        self._level = min(self._level + tokens, self.burst)

    def spell(self) -> str:
        """Return the bucket's limit in words for the body of an ERROR."""
        return spell_limit(self.scope, self.rate)

    def refusal(self) -> StompError:
        """Count a refusal. Return the error for a client that sent more than the bucket allows; raise this error."""
        self.tally.refused += 1
        if self.limit is Limit.BYTES:
            return StompError("too many bytes a second", self.spell())
        return StompError("too many frames a second", self.spell())


Buckets = tuple[TokenBucket, ...]
"""The buckets of one scope, or those of one session."""


class Limiter:
    """The buckets of a listener. `tallies`: by scope and limit. `asks_address`: clients' addresses are needed."""

    def __init__(self, rates: RateLimits) -> None:
        self._have(rates)
        self.tallies: dict[tuple[Scope, Limit], LimitTally] = {}
        self._places: dict[Scope, dict[str, Buckets]] = {scope: {} for scope in Scope}

    def change(self, rates: RateLimits) -> bool:
        """Use these rates. Return whether they are different. If so, get the `buckets` of each session again."""
        before = self.rates
        self._have(rates)
        for scope in Scope:
            if before.of(scope) != rates.of(scope):
                self._places[scope] = {}
        return before != rates

    def _have(self, rates: RateLimits) -> None:
        self.rates = rates
        self._limits = rates != NO_RATES
        self.asks_address = rates.address != _UNLIMITED

    def tally(self, scope: Scope, limit: Limit) -> LimitTally:
        """Return the counts of one limit of a scope."""
        return self.tallies.setdefault((scope, limit), LimitTally())

    def refuse(self, scope: Scope) -> None:
        """Count a client that was refused because its scope has too many clients."""
        self.tally(scope, Limit.CLIENTS).refused += 1

    def connect(self, now: float, address: str | None, user: str = "") -> TokenBucket | None:
        """Count a connection: for its listener and address, or for its `user` if that is given. Return None if all
        their buckets have a token. Otherwise return the first bucket without a token, and refuse the client: nothing
        was counted.
        """
        if not self._limits:
            return None
        scopes = ((Scope.USER, user),) if user else ((Scope.LISTENER, ""), (Scope.ADDRESS, address))
        buckets = self._buckets(scopes, now)
        needed = [each for each in buckets if each.limit is Limit.CONNECTS]
        for bucket in needed:
            if bucket.left(now) < 1.0:
                bucket.tally.refused += 1
                return bucket
        for bucket in needed:
            bucket.take(1, now)
        return None

    def buckets(self, now: float, address: str | None, user: str) -> Buckets:
        """Return the buckets that limit what a client with this address and user sends."""
        if not self._limits:
            return ()
        scopes = ((Scope.LISTENER, ""), (Scope.ADDRESS, address), (Scope.USER, user or None))
        return tuple(each for each in self._buckets(scopes, now) if each.limit is not Limit.CONNECTS)

    def _buckets(self, scopes: tuple[tuple[Scope, str | None], ...], now: float) -> Buckets:
        found: Buckets = ()
        for scope, name in scopes:
            places, rates = self._places[scope], self.rates.of(scope)
            if name is None or rates == _UNLIMITED:
                continue
            place = places.pop(name, None)
            if place is None:
                if len(places) >= PLACES:
                    # Among the oldest places, all full ones are forgotten; if none is full, the oldest one.
                    oldest = [each for each, _ in zip(places, range(_LOOKED_AT), strict=False)]
                    full = [
                        each for each in oldest if all(one.left(now) >= one.burst for one in places[each])
                    ]
                    for each in full or oldest[:1]:
                        del places[each]
                place = tuple(
                    TokenBucket(scope, limit, rates, self.tally(scope, limit), now)
                    for limit in _RATES
                    if getattr(rates, limit.value) is not None
                )
            places[name] = place  # the last to go now
            found += place
        return found
