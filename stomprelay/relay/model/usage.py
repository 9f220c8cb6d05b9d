"""What clients use of the product for which they were written, and what becomes of it at brokers of another product.

All answers are those of `BrokerMap`: the map in use is compared with the map without the configuration's choices.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from sys import maxsize
from typing import Final, NamedTuple

from stomprelay.relay.model.features import FEATURES, NACKS, PLACES, PREFETCH, SELECTORS, WINDOWED
from stomprelay.relay.model.mapping import LEFT_OUT, PLACED, BrokerMap, HeaderRow, Lack, MapSettings
from stomprelay.relay.model.selector import First
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO, Subscriptions
from stomprelay.wire.dialect import V1_2, Headers
from stomprelay.wire.errors import Refused
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    DESTINATION,
    NACK,
    SEND,
    SUBSCRIBE,
    TRANSACTION,
    UNSUBSCRIBE,
)


class Verdict(Enum):
    """What becomes of a feature at the brokers of a product."""

    REFUSED = "refused"
    """The client gets an ERROR."""
    UNDECIDED = "not decided"
    """The relay leaves it out, because a setting is missing."""
    CHOSEN = "chosen"
    """It changes its meaning, as the configuration says."""
    MAPPED = "mapped"
    """The relay says it in the product's words."""
    SAME = "same"
    """It passes as the client says it."""

    __hash__ = object.__hash__  # Enum's own is written in Python


class Finding(NamedTuple):
    """A feature that a frame uses. `place`: the client's destination, if it matters. `why`: what changes. `setting`:
    the line of `[upstream.NAME.map]` that decides it, or empty if no line does.
    """

    feature: str
    verdict: Verdict
    place: bytes = b""
    why: str = ""
    setting: str = ""


CUMULATIVE: Final = "cumulative-acks"
SETTLING: Final = "cumulative-acks-in-transactions"
NAMES: Final = "names"
NACKING: Final = "nack"
TEMPORARY: Final = "temporary-queues"
_REQUEUE: Final = b"requeue"
_ANY: Final = b"1"
"""Stands for a value that does not matter."""
_TEMPORARY: Final = (b"/temp-queue/", b"/temp-topic/")


def session_of(name: bytes, client_id: bytes = b"") -> Session:
    """Return a session whose frames are judged. It has no broker."""
    return Session(name, V1_2, 1, {}, client_id=client_id, subscriptions=Subscriptions(maxsize))


class Judge:
    """Judges clients' frames by the `map` of an upstream, for brokers of one product. `clients`: the product for which
    the clients were written.
    """

    def __init__(self, settings: MapSettings, product: str) -> None:
        self.product = product
        self.clients = settings.clients or product
        self._settings = settings
        self._spoken = settings.at(product) or BrokerMap(product)
        free = MapSettings(settings.clients, settings.names, settings.headers)
        self._free = free.at(product) or BrokerMap(product)
        """The map without choices."""
        same = self._spoken.clients is None
        self._bare = BrokerMap(product, None if same else self.clients, durable=self._free.durable)
        self._names = {
            (command, each.said[self.clients].name): each.name
            for each in FEATURES
            if self.clients in each.said and each.said[self.clients].used
            for command in each.commands
        }
        lacked = [each.header for each in self._free.lacks if each.header]
        self.known = frozenset(
            [
                *[name for _, name in self._names],
                *[row.name for row in self._spoken.rows],
                *lacked,
                *PLACED,
                _REQUEUE,
            ]
        )
        """The headers that matter in a client's frames, apart from `id` and `ack`."""
        self.valued = frozenset(
            [*PLACED, _REQUEUE, *[each.header for each in self._free.lacks if each.values]]
        )
        """Those of them whose values matter in SEND, ACK and NACK."""
        self._sent = lru_cache(4096)(self._judge_send)
        rows = [row.name for row in self._spoken.rows if ACK in row.commands]
        self.settling = (TRANSACTION, *[name for command, name in self._names if command is ACK], *rows)
        """Headers of ACKs: an ACK without any of them uses nothing."""

    @property
    def selector(self) -> bytes | None:
        """The header of selectors, if the product ignores them; otherwise None."""
        lacks = (each.header for each in self._free.lacks if each.feature == SELECTORS)
        return next(lacks, None)

    def judge(self, command: bytes, headers: Headers, session: Session) -> tuple[Finding, ...]:
        """Return what a client's frame uses. The session has the subscriptions before this frame; after the call, it
        has those after it.
        """
        if command is SEND:
            said = [each for each in headers if each[0] in self.known]
            return self._sent(tuple([each if each[0] in self.valued else (each[0], _ANY) for each in said]))
        found = self._whole(command, headers, session)
        if command is SUBSCRIBE:
            session.subscriptions.opened(headers)
        elif command is UNSUBSCRIBE:
            session.subscriptions.closed(headers)
        return found

    def _judge_send(self, headers: tuple[tuple[bytes, bytes], ...]) -> tuple[Finding, ...]:
        return self._whole(SEND, [*headers], session_of(b"judged"))

    def _whole(self, command: bytes, headers: Headers, session: Session) -> tuple[Finding, ...]:
        """Return what a frame uses. If the map refuses the frame, there is a refusal, whatever the reason is."""
        found = dict.fromkeys(self._judged(command, headers, session))
        if not any(each.verdict is Verdict.REFUSED for each in found):
            first = dict(reversed(headers)).get
            try:
                self._spoken.change(command, first, session)
            except Refused as error:
                place = first(DESTINATION) or b""
                found[Finding(error.message, Verdict.REFUSED, place, error.detail)] = None
        return tuple(found)

    def _judged(self, command: bytes, headers: Headers, session: Session) -> Iterator[Finding]:
        first = dict(reversed(headers)).get
        lacked = set()
        for lack in self._free.lacks:
            if command in lack.commands and lack.used(first):
                lacked.add(lack.header)
                yield self._of_lack(lack, first)
        for row in self._spoken.rows:
            if command in row.commands and row.name not in lacked and first(row.name) is not None:
                lacked.add(row.name)
                yield self._of_row(row, command, first, session)
        for (on, name), feature in self._names.items():
            if on is command and name not in lacked and first(name) is not None:
                yield self._of_header(feature, name, command, first, session)
        if command is NACK:
            yield from self._of_nack(first, session)
        if command is ACK and first(TRANSACTION) is not None and session.subscriptions.cumulative:
            why = "while a move is in both or new, it settles what is at one of both brokers; the rest comes again"
            yield Finding(SETTLING, Verdict.SAME, b"", why)
        if command is SUBSCRIBE:
            yield from self._of_acks(first, session)
            yield from self._of_window(first)
        if command in (SEND, SUBSCRIBE):
            yield from self._of_place(command, first)
            for header in PLACED:
                value = first(header)
                if value is not None:
                    yield from self._of_name(value, command, session)

    def _ignoring(self, feature: str) -> str:
        names = sorted({*self._settings.ignore, feature})
        return f"ignore = [{', '.join([_quoted(each) for each in names])}]"

    def _of_lack(self, lack: Lack, first: First) -> Finding:
        place, feature = first(DESTINATION) or b"", lack.feature
        if feature == SELECTORS:
            topic = place.startswith(b"/topic/")
            wanted = "/topic/*" if topic else _shown(place)
            names = sorted({*self._settings.filter, wanted})
            setting = f"filter = [{', '.join(map(_quoted, names))}]"
            if self._spoken.applies(place):
                if topic:
                    return Finding(feature, Verdict.MAPPED, place, "the relay applies them")
                return Finding(feature, Verdict.CHOSEN, place, "what does not match is dropped", setting)
        refused = any(each.feature == feature and each.used(first) for each in self._spoken.lacks)
        if not refused or feature != SELECTORS or not topic:
            setting = self._ignoring(feature)
        return Finding(feature, Verdict.REFUSED if refused else Verdict.CHOSEN, place, lack.why, setting)

    def _of_row(self, row: HeaderRow, command: bytes, first: First, session: Session) -> Finding:
        """Return what becomes of a header that is said otherwise."""
        name, becomes = row.name.decode(), row.becomes.decode()
        feature = self._names.get((command, row.name)) or f"header {name}"
        place = b"" if command is SEND else first(DESTINATION) or b""
        if row.value is LEFT_OUT:
            own = any(row is each for each in self._settings.headers)
            setting = "headers = ..." if own else self._ignoring(feature)
            return Finding(feature, Verdict.CHOSEN, place, f"{name} is left out", setting)
        value = first(row.name) or b""
        if row.value(value, self._spoken, session) is None:
            sized = replace(self._spoken, message_size=1)
            if row.value(value, sized, session) is not None:
                verdict = Verdict.CHOSEN if feature in self._settings.ignore else Verdict.UNDECIDED
                why = f"{name} is left out, because it is not known how many bytes a message has"
                setting = self._ignoring(feature) if verdict is Verdict.CHOSEN else "message_size = 1024"
                return Finding(feature, verdict, place, why, setting)
        why = f"{name} is {becomes} there"
        return Finding(
            feature, Verdict.MAPPED, place, why if name != becomes else f"the value of {name} changes"
        )

    def _of_header(
        self, feature: str, name: bytes, command: bytes, first: First, session: Session
    ) -> Finding:
        """Return what becomes of a header without a row."""
        place = b"" if command is SEND else first(DESTINATION) or b""
        try:
            drop, add, _ = self._bare.change(command, first, session)
        except Refused as error:
            return Finding(feature, Verdict.REFUSED, place, f"{error.message}: {error.detail}")
        if name not in drop:
            return Finding(feature, Verdict.SAME, place)
        why = ", ".join([b": ".join(each).decode("utf-8", "backslashreplace") for each in add])
        return Finding(feature, Verdict.MAPPED, place, f"{name.decode()} is {why} there")

    def _of_nack(self, first: First, session: Session) -> Iterator[Finding]:
        spoken, chosen = self._spoken, self._settings.nack.get(self.product)
        if spoken.nack is None:
            yield Finding(NACKING, Verdict.SAME)
            return
        able = [*NACKS[self.product]]
        try:
            replace(spoken, nack=able[0]).change(NACK, first, session)
        except Refused as error:
            yield Finding(NACKING, Verdict.REFUSED, b"", error.detail, self._ignoring(CUMULATIVE))
        try:
            change = replace(spoken, separate=False).change(NACK, first, session)
        except Refused as error:
            more = f"  # or {' or '.join(able[1:])}" if able[1:] else ""
            yield Finding(NACKING, Verdict.REFUSED, b"", error.detail, f"nack = {_quoted(able[0])}{more}")
            return
        why = ", ".join([_shown(change.command or NACK), *[_shown(b":".join(each)) for each in change.add]])
        verdict, setting = (
            (Verdict.MAPPED, "") if chosen is None else (Verdict.CHOSEN, f"nack = {_quoted(chosen)}")
        )
        yield Finding(NACKING, verdict, b"", f"it is {why} there", setting)

    def _of_acks(self, first: First, session: Session) -> Iterator[Finding]:
        """Yield whether ACKs of this subscription and of others of the session can be told apart."""
        counting = replace(self._bare, separate=self._free.separate)
        try:
            counting.change(SUBSCRIBE, lambda name: first(name) if name == ACK_HEADER else None, session)
        except Refused as error:
            verdict = Verdict.REFUSED if self._spoken.separate else Verdict.CHOSEN
            place = first(DESTINATION) or b""
            yield Finding(CUMULATIVE, verdict, place, error.detail, self._ignoring(CUMULATIVE))

    def _of_window(self, first: First) -> Iterator[Finding]:
        """Yield whether the broker may wait for an ACK that the client gives only after more messages."""
        header, why = WINDOWED.get(self.product, (b"", ""))
        if not header or self.clients == self.product or first(ACK_HEADER) in (None, AUTO):
            return
        place = first(DESTINATION) or b""
        said = [name for (_, name), feature in self._names.items() if feature == PREFETCH]
        given = [name for name, _ in self._spoken.added(SUBSCRIBE, place)]
        if header not in given and all(first(name) is None for name in said):
            row = f'{{ on = "SUBSCRIBE", header = "{header.decode()}", destination = "*", add = "-1" }}'
            yield Finding(PREFETCH, Verdict.CHOSEN, place, why, f"headers = [{row}]")

    def _of_place(self, command: bytes, first: First) -> Iterator[Finding]:
        """Yield what the form of a destination means, and which headers a frame gets for it."""
        place = first(DESTINATION) or b""
        lacking = {each.feature for each in self._free.lacks}
        mapped = command is SUBSCRIBE and self._spoken.subscribes(place)
        for each in () if mapped else PLACES:
            known = each.product == self.clients and command in each.commands
            if known and each.name not in lacking and each.pattern.fullmatch(place) is not None:
                yield Finding(each.name, Verdict.SAME, place)
        if mapped:
            why = [
                row.broker.said(values)
                for row in self._spoken.subscribed
                if (values := row.client.read(place))
            ]
            yield Finding("virtual-topics", Verdict.MAPPED, place, f"it is {_shown(why[0])} there")
        added = self._spoken.added(command, place)
        for name, value in self._free.added(command, place):
            if first(name) is None:
                said = b":".join((name, value)).decode()
                if (name, value) in added:
                    yield Finding("routing", Verdict.MAPPED, b"", f"the relay adds {said}")
                else:
                    yield Finding(
                        "routing", Verdict.CHOSEN, b"", f"the relay does not add {said}", "route = false"
                    )

    def _of_name(self, value: bytes, command: bytes, session: Session) -> Iterator[Finding]:
        """Yield how a client's name of a place is spelled, if it is spelled otherwise."""
        if command is SUBSCRIBE and self._spoken.subscribes(value):
            return
        temporary = value.startswith(_TEMPORARY)
        try:
            said = self._spoken.to_broker(value, session, command)
        except Refused as error:
            yield Finding(NAMES, Verdict.REFUSED, value, f"{error.message}: {error.detail}", "names = ...")
            return
        if temporary and self._free.private is not None and self._spoken.private is None:
            why = "the broker has no queues of one session only"
            yield Finding(TEMPORARY, Verdict.CHOSEN, b"", why, "temporary_queues = false")
        elif temporary and said == value:
            yield Finding(TEMPORARY, Verdict.SAME)
        elif temporary:
            yield Finding(TEMPORARY, Verdict.MAPPED, b"", "the relay makes a queue for the session alone")
        elif said != value:
            yield Finding(NAMES, Verdict.MAPPED, value, f"{_shown(value)} is {_shown(said)} there")


def _quoted(text: str) -> str:
    return f'"{text}"'


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
