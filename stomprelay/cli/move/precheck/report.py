"""What was found, by client, as text and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stomprelay.cli.move.precheck.connects import Connects
from stomprelay.relay.model.features import SELECTORS
from stomprelay.relay.model.mapping import DURABLE
from stomprelay.relay.model.usage import NACKING, NAMES, Finding, Verdict
from stomprelay.wire.errors import visible

PRODUCTS: Final = {"activemq": "ActiveMQ", "artemis": "Artemis", "rabbitmq": "RabbitMQ"}
"""The products, as people write them."""
_HEADINGS: Final = {
    Verdict.REFUSED: "refused: clients would get an ERROR",
    Verdict.UNDECIDED: "not decided",
    Verdict.CHOSEN: "changed, as the configuration says",
    Verdict.MAPPED: "said in other words by the relay",
    Verdict.SAME: "the same",
}
BLOCKING: Final = frozenset({Verdict.REFUSED, Verdict.UNDECIDED})
"""The verdicts with which a move may not begin."""
_PLACES: Final = 20
"""How many destinations of a client are remembered with a feature."""
_SHOWN: Final = 3
_LONGEST: Final = 200

Key = tuple[str, str, Verdict, str]
"""Client, feature, verdict, setting."""


@dataclass
class Use:
    """How a client uses a feature: how often, by source, and with which destinations; `more`: whether with others, too.
    `whys`: what changes.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[bytes, None] = field(default_factory=dict)
    whys: dict[str, None] = field(default_factory=dict)
    more: bool = False

    def add(self, finding: Finding, source: str, times: int = 1) -> None:
        """Count a finding."""
        self.counts[source] += times
        for known, value in ((self.places, finding.place), (self.whys, finding.why)):
            if value and value not in known:
                if len(known) < _PLACES:
                    known[value] = None  # type: ignore[index]
                elif known is self.places:
                    self.more = True


class Extra(NamedTuple):
    """What a client with a selector would get without it, at one destination: `sent` messages went there while it was
    subscribed, `delivered` of them to the client.
    """

    client: str
    place: str
    sent: int
    delivered: int

    def __str__(self) -> str:
        if self.delivered > self.sent:
            return f"{self.delivered} messages came to it, not all through this relay: how many more is not known"
        count = f"{self.delivered} of {self.sent} messages matched"
        if not self.place.startswith("/topic/"):
            return f"{count}; it would compete for all {self.sent}"
        share = (self.sent - self.delivered) / self.sent if self.sent else 0
        return f"{share:.0%} of its deliveries would be extra ({count})".replace("%", " %")


class Login(NamedTuple):
    """A login, and what became of it at a broker. `accepted` None: it was not tried."""

    login: str
    broker: str
    accepted: bool | None
    text: str


@dataclass
class Report:
    """All that was found. `old`, `new`: the upstreams; `products`: theirs. `connects`: judges CONNECTs. `open`: what
    keeps the move from beginning, apart from findings and logins. `looked`: what was looked at. `unlooked`: what was
    not. `connected`: the clients that are connected now; None: that was not looked at.
    """

    old: str
    new: str
    products: tuple[str, str]
    connects: Connects
    open: list[str] = field(default_factory=list)
    looked: list[str] = field(default_factory=list)
    unlooked: list[str] = field(default_factory=list)
    connected: set[str] | None = None
    uses: dict[Key, Use] = field(default_factory=dict)
    extras: dict[tuple[str, str], Extra] = field(default_factory=dict)
    logins: list[Login] = field(default_factory=list)

    def add(self, client: str, findings: Iterable[Finding], source: str, times: int = 1) -> None:
        """Add what a frame of this client uses, which came so many times."""
        for each in findings:
            key = (client, each.feature, each.verdict, each.setting)
            self.uses.setdefault(key, Use()).add(each, source, times)

    def add_extra(self, extra: Extra) -> None:
        """Add what a client with a selector would get without it. The journal and the tables may have the same."""
        self.extras[extra.client, extra.place] = extra

    def saw(self, source: str, frames: int, clients: Iterable[str], period: str = "") -> None:
        """Say how much was looked at. Without a frame of these clients the move may not begin."""
        count = len({*clients})
        self.looked.append(f"{source}: {frames} frames of {count} client{'s'[: count != 1]}{period}")
        if not frames:
            self.open.append(f"no client of {self.old} is in {source}")

    @property
    def may_begin(self) -> bool:
        """Whether nothing would be refused, and everything is decided."""
        refused = any(each.accepted is False for each in self.logins)
        return not (self.open or refused or any(verdict in BLOCKING for _, _, verdict, _ in self.uses))

    @property
    def away(self) -> dict[str, list[str]]:
        """The destinations of durable subscribers that are not connected now, by client. No session of theirs follows
        the move; what comes to NEW before they were connected there is not kept for them.
        """
        found: dict[str, dict[bytes, None]] = {}
        for (client, feature, _, _), use in self.uses.items():
            if feature == DURABLE and self.connected is not None and client not in self.connected:
                found.setdefault(client, {}).update(use.places)
        return {client: [_text(each) for each in places] for client, places in sorted(found.items())}

    def _line(self, setting: str) -> str:
        table = f"upstream.{self.new}{'' if setting.startswith('host ') else '.map'}"
        return f"[{table}] {setting}" if setting else ""

    def as_json(self) -> str:
        """Return the report as one JSON object."""
        found = [
            {
                "client": client,
                "feature": feature,
                "verdict": verdict.value,
                "destinations": [_text(each) for each in use.places],
                "more_destinations": use.more,
                "count": dict(use.counts),
                "why": [*use.whys],
                "setting": self._line(setting) or None,
                "extra": [each._asdict() for each in self._extras(client, feature, verdict, use)],
            }
            for (client, feature, verdict, setting), use in self._sorted()
        ]
        whole: dict[str, Any] = {
            "old": {"upstream": self.old, "product": self.products[0]},
            "new": {"upstream": self.new, "product": self.products[1]},
            "may_begin": self.may_begin,
            "open": self.open,
            "looked_at": self.looked,
            "not_looked_at": self.unlooked,
            "findings": found,
            "away": self.away,
            "logins": [each._asdict() for each in self.logins],
        }
        return json.dumps(whole)

    def lines(self) -> Iterator[str]:
        """Yield the report's lines for a person."""
        names = [PRODUCTS.get(each, each) for each in self.products]
        yield f"move from {self.old} ({names[0]}) to {self.new} ({names[1]})"
        for each in self.looked:
            yield f"  looked at: {visible(each)}"
        for each in self.unlooked:
            yield f"  not looked at: {visible(each)}"
        if self.open:
            yield "still open"
            yield from [f"  {visible(each)}" for each in self.open]
        for verdict, heading in _HEADINGS.items():
            found = [each for each in self._sorted() if each[0][2] is verdict]
            if found:
                yield heading
            for (client, feature, _, setting), use in found:
                yield f"  {self._sentence(client, feature, verdict, use)}"
                if setting and verdict is not Verdict.MAPPED:
                    yield f"      {self._line(setting)}"
        if away := self.away:
            yield "durable subscribers that are away: each must be connected once in both, and once in new"
            yield from [f"  {client}: {', '.join(places)}" for client, places in away.items()]
        if (whole := self._whole()) is not None:
            yield f"all that clients use would be allowed by\n      {whole}"
        if self.logins:
            yield f"logins at {self.new}"
            words = {True: "accepted", False: "refused", None: "not tried"}
            for login in self.logins:
                text = f": {login.text}" if login.text else ""
                yield visible(f"  {login.login} at {login.broker}: {words[login.accepted]}{text}")
        yield "the move may begin" if self.may_begin else "the move may not begin"

    def _whole(self) -> str | None:
        """Return one line in place of several that allow features; None if there are not several."""
        lists = {
            setting.partition(" = ")[2]
            for _, _, verdict, setting in self.uses
            if verdict is Verdict.REFUSED and setting.startswith("ignore")
        }
        names = sorted({name for each in lists for name in json.loads(each)})
        return self._line(f"ignore = {json.dumps(names)}") if len(lists) > 1 else None

    def _sorted(self) -> list[tuple[Key, Use]]:
        order = list(_HEADINGS)
        return sorted(self.uses.items(), key=lambda each: (order.index(each[0][2]), each[0][:2]))

    def _extras(self, client: str, feature: str, verdict: Verdict, use: Use) -> list[Extra]:
        """Return what comes in addition to what the client wants, unless the relay applies the selectors."""
        found = self.extras.values() if feature == SELECTORS and verdict is not Verdict.MAPPED else ()
        return [
            each
            for each in found
            if each.client == client and (use.more or each.place.encode() in use.places)
        ]

    def _sentence(self, client: str, feature: str, verdict: Verdict, use: Use) -> str:
        places = [*map(_text, use.places)]
        # What changes names them.
        on = f" on {_several(places, more=use.more)}" if places and feature != NAMES else ""
        words = {NACKING: "NACK", NAMES: "names"}.get(feature, feature.replace("-", " "))
        counts = ", ".join(f"{number} in {source}" for source, number in use.counts.items())
        extras = [
            f"{each}" if len(places) == 1 else f"{each.place}: {each}"
            for each in self._extras(client, feature, verdict, use)
            if each.sent or each.delivered
        ]
        why = "; ".join([_several([*use.whys], more=False)] * bool(use.whys) + extras)
        return visible(f"{client} uses {words}{on}{f': {why}' if why else ''} ({counts})")


def _several(places: list[str], *, more: bool) -> str:
    shown = places[:_SHOWN]
    left = len(places) - len(shown)
    if left or more:
        shown.append(f"{left}{' or' if more else ''} more")
    return ", ".join(shown)


def _text(place: bytes) -> str:
    return place.decode("utf-8", "backslashreplace")[:_LONGEST]
