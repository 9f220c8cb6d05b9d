"""Judges each SEND and SUBSCRIBE, and the headers of each UNSUBSCRIBE, by the rules. Brokers may read a head in several
ways, and each of these readings is judged. A frame that cannot be judged is refused. A frame with two `content-length`
is refused, too, because brokers could disagree about its end.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from stomprelay.relay.effects import Identify, Outbox
from stomprelay.relay.model.profile import ANY_NAMES, Naming
from stomprelay.relay.model.rules import (
    ANYBODY,
    OCTETS,
    AccessRules,
    Claim,
    ClientRules,
    Identity,
    MatchingRules,
    Place,
    Request,
    folded,
)
from stomprelay.session.leg import Leg
from stomprelay.session.subscriptions import AUTO, MODES, Subscription
from stomprelay.wire.dialect import LETTERS, Dialect, Headers
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    ACK_HEADER,
    CONTENT_LENGTH,
    DESTINATION,
    PASSCODE,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from stomprelay.wire.run import Passing, Rules, Run

Found = TypeVar("Found", Frame, Frame | Run)

_KNOWN: Final = 64
"""The highest number of destinations that are remembered, each with the rules that match it."""
_LONGEST: Final = 256
"""The longest destination that is remembered, in bytes."""
_AUTO: Final = frozenset({AUTO})
_ESCAPE: Final = re.compile(rb"\\([rnc\\])")
_PERCENT: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNCERTAIN: Final = re.compile(rb"[\\%\x00-\x20]")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")


_READINGS: Final[tuple[Callable[[bytes], bytes], ...]] = (
    lambda value: _ESCAPE.sub(lambda found: LETTERS[found[1]], value),
    lambda value: _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), value),
    lambda value: value.strip(OCTETS),
)


def readings(value: bytes) -> list[str]:
    """Return all readings that brokers may have of a destination. Raises `Refused` for control characters."""
    found = {value: None}
    if _UNCERTAIN.search(value):
        for reading in _READINGS:
            found.update(dict.fromkeys([reading(each) for each in found]))
    try:
        texts = [each.decode() for each in found]
    except UnicodeDecodeError:
        raise _unclear("a destination is not UTF-8", value) from None
    if any(_CONTROL.search(each) for each in found):
        raise _unclear("a destination has control characters", value)
    return texts


def places(command: bytes, headers: Headers, naming: Naming) -> list[Place]:
    """Return all places that a SEND or SUBSCRIBE may name, each once. Raises `Refused` if they cannot be known."""
    destinations = _read(headers, DESTINATION)
    if not destinations:
        raise _unclear("there is no destination")
    found = [Place(command, each) for each in destinations]
    if command == SUBSCRIBE:
        # The broker takes from the queue, and puts into it from now on what is sent to the topic.
        found += [Place(verb, each) for each in _bound(headers, naming) for verb in (SUBSCRIBE, SEND)]
    if naming.dead_letters is not None:
        exchange, key = naming.dead_letters
        exchanges = _read(headers, exchange)
        if exchanges:
            keys = _read(headers, key) or [each.rpartition("/")[2] for each in destinations]
            found += [
                Place(SEND, f"/exchange/{name}/{each}" if name else f"/queue/{each}")
                for name in exchanges
                for each in keys
            ]
    return [*dict.fromkeys(found)]


def _bound(headers: Headers, naming: Naming) -> list[str]:
    """Return the queues that a header names in addition to the destination: the first names, of all readings."""
    return [] if naming.bound is None else [f"/queue/{each}" for each in _read(headers, naming.bound)]


def _read(headers: Headers, wanted: bytes) -> list[str]:
    """Return all readings of the values of the headers that a broker may take for `wanted`; each reading once."""
    values = [value for name, value in headers if folded(name) == wanted]
    return [*dict.fromkeys([text for value in values for text in readings(value)])]


def request(command: bytes, headers: Headers, size: int) -> Request:
    """Return the request of a SEND or SUBSCRIBE with these headers. `acks` has each mode that some broker may read."""
    modes = [header for header in headers if folded(header[0]) == ACK_HEADER] if command == SUBSCRIBE else []
    acks = MODES
    if not modes:
        acks = _AUTO
    elif len(modes) == 1 and modes[0][0] == ACK_HEADER and modes[0][1] in MODES:
        acks = frozenset({modes[0][1]})
    return Request(command, headers, acks, size)


def _unclear(detail: str, quoted: bytes | None = None) -> Refused:
    return Refused("it cannot be told what is asked for", detail, quoted=quoted)


@lru_cache
def _sure(rules: Rules) -> Rules:
    """Limit these rules to frames that all brokers read alike. In a run of SENDs the values are the destinations."""
    barred = (RECEIPT_HEADER, *(ANY_NAMES.dead_letters or ()))
    return tuple(
        [
            rule._replace(
                unless=(*rule.unless, *barred), wants=(DESTINATION,), needs=True, plain=True, sure=True
            )
            if rule.command == SEND
            else rule._replace(plain=True, sure=True)
            for rule in rules
        ]
    )


class Shown(NamedTuple):
    """A new token that a client sent, and the receipt that the client asked for, if any."""

    claim: Claim
    receipt: bytes | None


@dataclass(slots=True, eq=False, repr=False)
class Renewal:
    """The new tokens of a connected client. Each token is the `passcode` of a SEND to `destination`; no broker is sent
    this SEND. One token is checked at a time: `asked`. If more tokens come during a check, only the last of them is
    checked afterwards. `taken`: how many frames had a new token.
    """

    destination: bytes
    _client: Leg
    _outbox: Outbox
    taken: int = 0
    asked: Shown | None = None
    _next: Shown | None = None

    def takes(self, frame: Frame, dialect: Dialect) -> bool:
        """Return whether a frame has a new token. If so, the token is checked now, or after the present check."""
        if frame.command is not SEND or frame.header(DESTINATION, dialect) != self.destination:
            return False
        self.taken += 1
        self._next = Shown(
            Claim(None, frame.header(PASSCODE, dialect)), frame.header(RECEIPT_HEADER, dialect)
        )
        if self.asked is None:
            self.answered()
        return True

    def answered(self) -> bytes | None:
        """A token was checked: start the next check. Return the receipt to give to the client if the token is valid."""
        before, self.asked, self._next = self.asked, self._next, None
        if self.asked is not None:
            self._outbox.put(Identify(self._client, self.asked.claim))
        return None if before is None else before.receipt


@dataclass(slots=True, eq=False, repr=False)
class Guard:
    """Judges one client's frames by its rules. `counters` counts refusals. `renewal` takes SENDs with a new token.
    While the guard is `active`, every frame must pass through `judged`. `doubts`: subscriptions that may not be
    allowed any more; None if there are none.
    """

    _rules: AccessRules | None
    _identity: Identity
    _counters: dict[str, int]
    _renewal: Renewal | None = None
    active: bool = field(init=False)
    _policy: ClientRules | None = None
    _known: dict[bytes, MatchingRules] | None = None
    doubts: list[Subscription] | None = None

    def __post_init__(self) -> None:
        self.active = self._rules is not None or self._renewal is not None

    def ruled(self, rules: AccessRules | None) -> None:
        """Use these rules from now on."""
        self._rules = rules
        self.active = rules is not None or self._renewal is not None
        self._policy = self._known = None

    @property
    def taken(self) -> int:
        """How many frames `judged` has not yielded, because they had a new token."""
        return 0 if self._renewal is None else self._renewal.taken

    @property
    def asked(self) -> bool:
        """Whether a new token of the client is being checked."""
        return self._renewal is not None and self._renewal.asked is not None

    def renewed(self, identity: Identity) -> bool:
        """The client has sent a valid new token. Return whether the rules may decide differently now."""
        before, self._identity = self._identity, identity
        if (before.user, before.groups, before.certificate) == (
            identity.user,
            identity.groups,
            identity.certificate,
        ):
            return False
        self.ruled(self._rules)
        return True

    def answered(self) -> bytes | None:
        """The client's new token was checked; see `Renewal.answered`."""
        return None if self._renewal is None else self._renewal.answered()

    def judged(self, frames: Iterator[Found], dialect: Dialect) -> Iterator[Found]:
        """Yield the frames except those with a new token. Raises `Refused` for a frame that is not allowed."""
        for found in frames:
            if not isinstance(found, Run):
                if self._renewal is not None and self._renewal.takes(found, dialect):
                    continue
                try:
                    self._judge(found, dialect)
                except Refused as error:
                    self._counters["frames_denied"] += 1
                    raise error.asked_for(found.header(RECEIPT_HEADER, dialect)) from None
            yield found

    def passing(self, passing: Passing) -> Passing:
        """Return these rules, limited to runs that are always allowed. All other frames must pass through `judged`."""
        wanted = any(each.command == SEND and each.wants == (DESTINATION,) for each in passing.rules)

        def takes(run: Run) -> bool:
            if run.command == SEND:
                if not all(map(self._allowed, set(run.values.splitlines()))):
                    return False
                if not wanted:
                    run.values = b""  # what `passing` wants stands in none of these frames
            return passing.takes(run)

        return Passing(_sure(passing.rules), takes)

    def _allowed(self, destination: bytes) -> bool:
        """Return whether every SEND to this destination is known to be allowed, whatever else it contains."""
        if self._renewal is not None and destination == self._renewal.destination:
            return False
        matching = None if self._known is None else self._known.get(destination)
        return self._rules is None or (matching is not None and matching.settled)

    def doubt(self, subscriptions: list[Subscription]) -> None:
        """Record that these open subscriptions may be forbidden. Next, call `objection`. The guard keeps the list."""
        subscriptions.reverse()
        self.doubts = None if self._its_policy() is None else subscriptions

    def objection(self, most: int) -> Refused | None:
        """Judge at most `most` of the `doubts`. Return an error if one is forbidden. Repeat while there are more."""
        policy, doubted = self._policy, self.doubts
        if policy is None or doubted is None:
            return None
        try:
            for each in doubted[: -most - 1 : -1]:
                if each.open:
                    matching = policy.matching(places(SUBSCRIBE, each.headers, policy.naming))
                    _decide(policy, matching, request(SUBSCRIBE, each.headers, 0))
        except Refused as error:
            return error
        del doubted[-most:]
        if not doubted:
            self.doubts = None
        return None

    def _its_policy(self) -> ClientRules | None:
        """Return the rules for this client; None if there are no rules."""
        if self._policy is None and self._rules is not None:
            self._policy = ClientRules(self._rules, self._identity)
        return self._policy

    def _judge(self, frame: Frame, dialect: Dialect) -> None:
        """Raise `Refused` for a frame that is not allowed."""
        policy = self._its_policy()
        if policy is None:
            return
        head = frame.data[frame.head - 1 : frame.body]
        lowered = head.lower()
        if b"\r" in head and head.count(b"\r") != head.count(b"\r\n"):
            raise _unclear("a header has a CR that ends no line")
        lengths = lowered.count(CONTENT_LENGTH)
        if lengths and (lengths > 1 or b"\ncontent-length:" not in head):
            names = [name for name, _ in frame.headers(dialect) if folded(name) == CONTENT_LENGTH]
            if names and names != [CONTENT_LENGTH]:
                raise _unclear("a content-length is repeated, or not spelled so")
        if frame.command is UNSUBSCRIBE:
            self._judge_end(policy, frame.headers(dialect))
            return
        if frame.command is not SEND and frame.command is not SUBSCRIBE:
            return
        value: bytes | None = None
        if frame.command is SEND and lowered.count(DESTINATION) == 1:
            steering = policy.naming.dead_letters
            if steering is None or steering[0] not in lowered:
                value = frame.raw(DESTINATION)
        matching = self._known.get(value) if value is not None and self._known is not None else None
        headers: Headers | None = None
        if matching is None:
            headers = frame.headers(dialect)
            matching = policy.matching(places(frame.command, headers, policy.naming))
            if value is not None and len(value) <= _LONGEST and b"\r" not in value:
                if self._known is None or len(self._known) >= _KNOWN:
                    self._known = {}
                self._known[value] = matching
        if matching.settled:  # whatever its other headers are
            return
        if headers is None:
            headers = frame.headers(dialect) if matching.headers else []
        _decide(policy, matching, request(frame.command, headers, frame.end - frame.body))

    def _judge_end(self, policy: ClientRules, headers: Headers) -> None:
        """Judge an UNSUBSCRIBE by its headers; if it names a queue, also as a SUBSCRIBE to that queue."""
        decision = policy.steering(headers)
        if decision is not None and not decision.allow:
            raise Refused("not allowed", decision.reason)
        queues = _bound(headers, policy.naming)
        if queues:
            named = [Place(SUBSCRIBE, each) for each in queues]
            _decide(policy, policy.matching(named), request(UNSUBSCRIBE, headers, 0))


UNGUARDED: Final = Guard(None, ANYBODY, {})
"""For all clients without rules and tokens. These share one guard, because there may be very many of them."""


def _decide(policy: ClientRules, matching: MatchingRules, request: Request) -> None:
    decision = policy.decide(matching, request)
    if not decision.allow:
        raise Refused("not allowed", decision.reason, quoted=decision.place.destination.encode())
