"""What clients may do. A denying rule applies if any reading of a frame matches it. An allowing rule applies only if
all readings match it. All names that brokers use for the same place count.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from stomprelay.relay.model.profile import ANY_NAMES, Naming
from stomprelay.session.handshake import Credentials
from stomprelay.wire.dialect import Headers
from stomprelay.wire.names import SEND, SUBSCRIBE, UNSUBSCRIBE


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is. `user`: "" if the listener asks for no user. `certificate`: the name in the client's
    certificate, or "". `credentials`: for brokers, in place of the client's own; None: the client's own are used.
    `until`: when the session ends at the latest, in seconds.
    """

    user: str = ""
    groups: frozenset[str] = frozenset()
    certificate: str = ""
    credentials: Credentials | None = None
    until: float = inf


ANYBODY: Final = Identity()
"""The identity if the listener identifies nobody: the brokers decide whether the client may connect."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client claims about itself in CONNECT, as bytes; None: no claim. No repr shows the passcode."""

    login: bytes | None
    passcode: bytes | None = field(default=None, repr=False)


class Ground(Enum):
    """Why a client is refused, for log and journal: its claim is missing or wrong, or there was no decision in time."""

    MISSING = "missing"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    PASSCODE = "passcode"
    SERVICE = "service"
    UNCHECKED = "unchecked"


class Refusal(NamedTuple):
    """A refusal and its reason. `text` is for the log; it has no secret and no text of the client's."""

    ground: Ground
    text: str


USER: Final = "{user}"
"""Stands for the user's name in the pattern of a destination."""
OCTETS: Final = bytes(range(33))
"""Octets around a header's name or value that some brokers do not count as part of it."""

_MORE: Final = re.compile(r"[*>#,?]|::+")
"""Characters and sequences by which a broker reads more than one name in a destination."""
_LIST: Final = re.compile(r",|::")
_WILD: Final = re.compile(r"\[!?\]?[^\]]*\]|[*?]")
_ANY: Final = "\0"


def _literal(found: re.Match[str]) -> str:
    """Return the character that this part of a glob matches, if it matches only one character; otherwise `_ANY`."""
    text = found[0]
    return text[1] if len(text) == 3 and text[1] != "!" else _ANY


class Pattern:
    """A glob of destinations: `*` any characters, `?` one, `[...]` one of a set. The whole destination must match."""

    __slots__ = ("_begins", "_matches", "_more")

    def __init__(self, glob: str) -> None:
        literal = _WILD.sub(_literal, glob)
        self._matches: Callable[[str], object] = re.compile(translate(glob)).match
        self._more = len(_MORE.findall(literal))
        self._begins = literal.partition(_ANY)[0]

    def covers(self, destination: str) -> bool:
        """Whether a destination matches, however a broker reads it. Its wildcards must stand in the glob, too."""
        return bool(self._matches(destination)) and len(_MORE.findall(destination)) == self._more

    def may_cover(self, destination: str) -> bool:
        """Whether some broker may read a destination so that it matches. For a destination with wildcards or several
        names, the result is True if the destination and the glob may begin alike.
        """
        if self._matches(destination):
            return True
        more = _MORE.search(destination)
        if more is None:
            return False
        begins = "" if _LIST.search(destination) else destination[: more.start()]
        return begins.startswith(self._begins) or self._begins.startswith(begins)


_pattern: Final = lru_cache(4096)(Pattern)
"""Sessions share these patterns."""


class HeaderPattern:
    """A header, given as a glob of its name, or as globs of its name and its value: `name:value`."""

    __slots__ = ("_name", "_value")

    def __init__(self, text: str) -> None:
        self._name, colon, value = text.partition(":")
        self._value = value if colon else "*"

    def held(self, headers: Headers) -> bool:
        """Whether every broker finds such a header: it is spelled exactly like this, and its name occurs once."""
        names = Counter([folded(name) for name, _ in headers])
        return any(
            fnmatchcase(_text(name), self._name)
            and fnmatchcase(_text(value), self._value)
            and names[folded(name)] == 1
            for name, value in headers
        )

    def may_be_held(self, headers: Headers) -> bool:
        """Whether some broker may read one of these headers as a match. Case and outer blanks do not count."""
        return any(
            fnmatchcase(_text(folded(name)), self._name.lower())
            and fnmatchcase(_text(value.strip(OCTETS).lower()), self._value.lower())
            for name, value in headers
        )


def folded(name: bytes) -> bytes:
    """Return a header's name as the least strict broker reads it."""
    return name.strip(OCTETS).lower()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


_header_pattern: Final = lru_cache(4096)(HeaderPattern)


class Place(NamedTuple):
    """A destination, and whether the frame sends to it (SEND) or subscribes to it (SUBSCRIBE)."""

    command: bytes
    destination: str


class Request(NamedTuple):
    """What a SEND or SUBSCRIBE asks for. `acks`: each mode that some broker may read. `size`: bytes of the body."""

    command: bytes
    headers: Headers
    acks: frozenset[bytes]
    size: int


@dataclass(frozen=True)
class AccessRule:
    """One rule; `number` is its place in the file, from 1. It applies to clients in `users`, `groups` and
    `certificates` (globs; empty: everybody), to destinations in the globs `send` and `subscribe`, to SUBSCRIBEs with a
    mode in `ack`, to frames with one of `headers`, and to bodies of at most `size` bytes.
    """

    number: int
    allow: bool
    send: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    name: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    ack: frozenset[bytes] = frozenset()
    headers: tuple[str, ...] = ()
    size: int | None = None

    def __str__(self) -> str:
        return f"rule {self.number} ({self.name})" if self.name else f"rule {self.number}"

    def concerns(self, identity: Identity) -> bool:
        """Return whether the rule is for this client."""
        return (
            _is_named(self.users, [identity.user])
            and _is_named(self.groups, identity.groups)
            and _is_named(self.certificates, [identity.certificate])
        )

    def conditional(self, command: bytes) -> bool:
        """Whether the rule has further conditions, besides client and destination, for frames of this command."""
        return bool(self.headers) or (bool(self.ack) if command == SUBSCRIBE else self.size is not None)

    def holds(self, request: Request) -> bool:
        """Whether the rule's further conditions are met, besides client and destination."""
        if self.size is not None and request.command == SEND and request.size > self.size:
            return False
        if self.ack and request.command == SUBSCRIBE:
            fits = request.acks <= self.ack if self.allow else bool(request.acks & self.ack)
            if not fits:
                return False
        if not self.headers:
            return True
        patterns = [_header_pattern(each) for each in self.headers]
        if self.allow:
            return any(each.held(request.headers) for each in patterns)
        return any(each.may_be_held(request.headers) for each in patterns)


def _is_named(patterns: tuple[str, ...], names: list[str] | frozenset[str]) -> bool:
    return not patterns or any(name and fnmatchcase(name, each) for name in names for each in patterns)


@dataclass(frozen=True)
class AccessRules:
    """The rules of a listener. The first matching rule decides; if no rule matches, `allow` decides. `naming`: the
    names that the listener's brokers use for a place.
    """

    rules: tuple[AccessRule, ...]
    allow: bool
    naming: Naming = ANY_NAMES

    @property
    def advisory(self) -> bool:
        """Whether denying rules may fail, because brokers may know a denied place by names that are not known here."""
        return not self.naming.known and any(not each.allow for each in self.rules)


class MatchingRules(NamedTuple):
    """The matching rules for each place of a frame, up to the first rule without further conditions. `settled`: the
    frame is allowed in any case. `headers`: whether rules depend on headers.
    """

    rules: tuple[tuple[Place, tuple[AccessRule, ...]], ...]
    settled: bool
    headers: bool


class Decision(NamedTuple):
    """Whether a frame is allowed, by which rule, for which place. `more`: no rule has the place's wildcard or list."""

    allow: bool
    rule: AccessRule | None
    place: Place
    more: bool = False

    @property
    def reason(self) -> str:
        """The reason in words. They do not contain the destination."""
        word, command = "allows" if self.allow else "denies", self.place.command.decode()
        if self.rule is not None:
            return f"{self.rule} {word} {command}"
        if self.more:
            return f"no rule writes out the wildcard, list or option for {command}"
        return f"no rule matches, and the default {word} {command}"


class ClientRules:
    """The rules of a listener that apply to one client."""

    __slots__ = ("_allow", "_patterns", "_rules", "naming")

    def __init__(self, rules: AccessRules, identity: Identity) -> None:
        self.naming = rules.naming
        self._allow = rules.allow
        self._rules = [each for each in rules.rules if each.concerns(identity)]
        self._patterns = {
            command: [self._spelled(globs, identity.user, allow=allow) for allow, globs in said]
            for command, said in (
                (SEND, [(each.allow, each.send) for each in self._rules]),
                (SUBSCRIBE, [(each.allow, each.subscribe) for each in self._rules]),
            )
        }

    def _spelled(self, globs: tuple[str, ...], user: str, *, allow: bool) -> list[Pattern]:
        """Return the patterns of these globs. A denying glob gets more patterns, so that all other names of a denied
        destination are denied, too.
        """
        if not allow:
            globs = tuple([each for glob in globs for each in self.naming.denied(glob)])
        return _patterns(globs, user, allow=allow)

    def matching(self, places: Iterable[Place]) -> MatchingRules:
        """Return the rules for frames that name these places. There must be at least one place."""
        found = tuple([(each, (*self._asked(each),)) for each in places])
        conditional = [rule for place, rules in found for rule in rules if rule.conditional(place.command)]
        allowed = all(self._decided(rules[0] if rules else None, each).allow for each, rules in found)
        return MatchingRules(
            found, settled=allowed and not conditional, headers=any(rule.headers for rule in conditional)
        )

    def decide(self, matching: MatchingRules, request: Request) -> Decision:
        """Return the decision about the first place that is not allowed; if all are allowed, about the last place."""
        decision: Decision | None = None
        for place, rules in matching.rules:
            rule = next((each for each in rules if each.holds(request)), None)
            decision = self._decided(rule, place)
            if not decision.allow:
                return decision
        assert decision is not None
        return decision

    def steering(self, headers: Headers) -> Decision | None:
        """Return the decision of the first rule for the headers of an UNSUBSCRIBE; None if no rule applies."""
        for rule in self._rules:
            if rule.subscribe and rule.headers and rule.holds(Request(UNSUBSCRIBE, headers, frozenset(), 0)):
                return Decision(rule.allow, rule, Place(UNSUBSCRIBE, ""))
        return None

    def trail(self, request: Request, place: Place) -> Iterator[tuple[AccessRule, bool, bool]]:
        """Yield (rule, whether the destination matches, whether the conditions are met), up to a rule that applies."""
        names = self.naming.names(place.destination)
        for rule, patterns in zip(self._rules, self._patterns[place.command], strict=True):
            matches, holds = _match(rule, patterns, names), rule.holds(request)
            yield rule, matches, holds
            if matches and holds:
                return

    def _asked(self, place: Place) -> Iterator[AccessRule]:
        names = self.naming.names(place.destination)
        for rule, patterns in zip(self._rules, self._patterns[place.command], strict=True):
            if _match(rule, patterns, names):
                yield rule
                if not rule.conditional(place.command):
                    return

    def _decided(self, rule: AccessRule | None, place: Place) -> Decision:
        if rule is not None:
            return Decision(rule.allow, rule, place)
        more = self._allow and _MORE.search(place.destination) is not None
        return Decision(self._allow and not more, None, place, more)


def _match(rule: AccessRule, patterns: list[Pattern], names: list[str]) -> bool:
    """Whether a rule is about a destination. `names`: all names of the place; the first one is the destination."""
    if rule.allow:
        return any(each.covers(names[0]) for each in patterns)
    return any(each.may_cover(name) for name in names for each in patterns)


def _patterns(globs: tuple[str, ...], user: str, *, allow: bool) -> list[Pattern]:
    """Return the patterns with the user's name. If the name is not plain, allowing globs with `USER` are left out."""
    unsafe = not user or not user.isprintable() or _MORE.search(user) is not None
    name = re.sub(r"[*?[]", r"[\g<0>]", user)
    return [
        _pattern(each.replace(USER, name))
        for each in globs
        if USER not in each or (bool(user) and not (allow and unsafe))
    ]
