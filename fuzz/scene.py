"""Which listener, upstream and brokers a world has."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final

from fuzz.broker import PRODUCTS, VERSIONS, Address, Embedded, Scripted
from fuzz.words import Words
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect, alone
from stomprelay.relay.model.listener import Listener, LossPolicy, Match, Route
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits

KINDS: Final = ("plain", "failover", "fanout", "routes")

SMALL: Final = Limits(headers=12, header_line=200, body=2000)
TIGHT: Final = {
    "before_connect": 300,
    "unacknowledged": 4,
    "transactions": 3,
    "subscriptions": 3,
    "kept": 4000,
    "limits": SMALL,
}


@dataclass
class Scene:
    """What a world begins with. `tame`: what client and brokers say is right, so that more can be asked of the relay;
    `honest`: all brokers are embedded ones. `client` is the version that clients speak. `passes`: what may pass without
    the relay does, where the scanner is compiled.
    """

    kind: str
    client: bytes
    broker: bytes
    front: Listener
    addresses: dict[Broker, Address]
    words: Words
    tame: bool
    honest: bool
    passes: bool

    def __str__(self) -> str:
        names = [self.kind, f"{self.client.decode()}-{self.broker.decode()}"]
        names += ["confirm"] * self.front.upstream.confirm + ["trace"] * self.front.trace
        names += ["small"] * (self.front.limits is SMALL) + ["honest" if self.honest else "scripted"]
        names += ["passes"] * self.passes
        return " ".join([*names, "tame" if self.tame else "wild"])


def draw(chance: Random, *, large: bool) -> Scene:
    """Draw a scene; `large`: its bodies fill buffers."""
    random = chance.random
    kind, client = chance.choice(KINDS), chance.choice(VERSIONS)
    broker = chance.choice(VERSIONS)
    # Who counts alike is told apart by the relay alone: ids of one group are those of another one, too.
    alike = kind != "plain" and not large and random() < 0.15
    if alike and random() < 0.5:
        client = broker = b"1.2"
    wild = 0.0 if large or alike else chance.choice((0.0, 0.0, 0.02, 0.2))
    odd = 0.0 if large or alike else chance.choice((0.0, 0.05, 0.25))
    words = Words(chance, wild=wild, odd=odd, large=large, returns=client != b"1.2")
    honest = not alike and random() < 0.4
    addresses: dict[Broker, Address] = {}
    mood = 0.0 if large or alike else chance.choice((0.0, 0.1, 0.5))

    def brokers(*names: str) -> tuple[Broker, ...]:
        made, group = [], names[0].encode()
        for name in names:
            redelivers = alike or random() < 0.5
            made.append(Broker(f"tcp://{name}", f"tcp:{name}:61613"))
            addresses[made[-1]] = (
                Embedded(name.encode())
                if honest
                else Scripted(
                    name.encode(),
                    group,
                    words,
                    mood,
                    broker,
                    chance.choice(PRODUCTS),
                    redelivers=redelivers,
                    # In 1.0 and 1.1 a broker's message-id is all that a client has.
                    told_apart=client == b"1.2" or not redelivers,
                )
            )
        return tuple(made)

    own = "plain" if kind == "routes" and random() < 0.2 else kind
    over = _upstream(chance, own, broker, brokers, large=large)
    routes: tuple[Route, ...] = ()
    if kind == "routes":
        there = _upstream(
            chance, "plain" if random() < 0.3 else "failover", broker, brokers, "there", large=large
        )
        routes = (Route(Match.PREFIX, "/queue/there.", there),)
    tight = TIGHT if not large and random() < 0.25 else {}
    front = Listener(
        "public",
        "tcp:61613",
        over,
        routes,
        heart_beat=Terms(1000, 1000) if random() < 0.5 else Terms(),
        loss=chance.choice(list(LossPolicy)),
        require_utf8=random() < 0.1,
        trace=random() < 0.3,
        **tight,  # type: ignore[arg-type]  # by name
    )
    tame = not (wild or odd or (mood and not honest))
    passes = kind in ("plain", "failover") and random() < 0.7
    return Scene(kind, client, broker, front, addresses, words, tame, honest, passes)


def _upstream(
    chance: Random,
    kind: str,
    version: bytes,
    brokers: Callable[..., tuple[Broker, ...]],
    name: str = "main",
    *,
    large: bool,
) -> Upstream:
    random = chance.random
    reconnect = Reconnect(
        randomize=random() < 0.3,
        longest_delay=chance.choice((0.1, 1.0, 30.0)),
        attempts=chance.choice((-1, -1, 0, 3)),
        priority_backup=random() < 0.2,
        timeout=chance.choice((inf, inf, 3.0)),
        startup_attempts=chance.choice((-1, 2)),
        warn_after=chance.choice((1, 10)),
    )
    policy = chance.choice(list(Policy)) if random() < 0.3 else Policy.FAILOVER
    places = [f"{name}-{letter}" for letter in "abc"]
    if kind == "plain":
        groups = alone(brokers(places[0])[0])
    elif kind == "fanout":
        count = 2 + (random() < 0.3)
        groups = tuple(Group(each, brokers(each), reconnect, policy) for each in places[:count])
    else:
        groups = (Group(name, brokers(*places[: 1 + int(random() * 3)]), reconnect, policy),)
    return Upstream(
        name,
        groups,
        versions=frozenset({version}),
        heart_beat=Terms(1000, 1000, tolerance=2.5) if random() < 0.5 else Terms(),
        connect_timeout=chance.choice((1.0, 10.0)),
        disconnect_timeout=chance.choice((0.5, 5.0)),
        keep_alive=chance.choice((0.0, 20.0)),
        close_on_error=random() < 0.2,
        quorum=chance.choice((1, len(groups))),
        fan_out_queues=random() < 0.8,
        confirm=kind != "plain" and random() < 0.5,
        resend_buffer=chance.choice((1024 * 1024, 600)) if not large else 1024 * 1024,
        reconnect_rate=chance.choice((500.0, 0.0, 2.0)),
        drain_timeout=chance.choice((0.5, 5.0)),
        checks=Checks(longest_pause=chance.choice((1.0, 60.0)), failures=chance.choice((1, 3))),
    )
