"""What happens in a world: the scene that it begins with, and the steps. Both come from the seed. Any subset of the
steps is a plan, too: that is how a failing world is made smaller.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from sim.brokers import PRODUCTS, Product
from sim.clients import Habit
from sim.layers import NAME, PATH, certificate
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect, alone
from stomprelay.relay.model.listener import Listener, ServerTLS, Web
from stomprelay.relay.model.rates import RateLimits, Rates
from stomprelay.relay.model.rules import AccessRule, AccessRules
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.session.leg import Terms
from stomprelay.wire.frame import Limits

VERSIONS: Final = (b"1.0", b"1.1", b"1.2")
KINDS: Final = ("plain", "failover", "failover", "failover", "fanout")
CHANGES: Final[tuple[dict[str, Any], ...]] = (
    {"buffer": 600, "unacknowledged": 3, "trace": True},
    {"disconnect_timeout": 1.0, "beats": True, "policy": Policy.TOGETHER},
    {"brokers": 1},
    {"versions": (b"1.1", b"1.2")},
    {"body": 10_000},
    {"clients": 1},
    {"frames": 4.0},
    {"denied": ("/queue/c",)},
    {},
)
"""What a configuration that is read anew may change."""
PLACE: Final = ("192.0.2.100", 61613)


class Step(NamedTuple):
    """At a time, `who` (a client, a broker, or the `relay`) does something. Numbers choose among what there is then."""

    at: float
    who: str
    act: str
    values: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.at:8.3f} {self.who} {self.act} {' '.join(map(str, self.values))}".rstrip()


@dataclass(frozen=True)
class Scene:
    """What a world begins with. `brokers` are products and their highest versions by name; `clients` habits by name."""

    kind: str
    brokers: dict[str, tuple[Product, bytes]]
    clients: dict[str, Habit]
    weather: tuple[float, float, float]
    settings: dict[str, Any]

    def __str__(self) -> str:
        parts = [
            self.kind,
            *[
                f"{name}={product.name}/{version.decode()}"
                for name, (product, version) in self.brokers.items()
            ],
        ]
        parts += [
            f"{name}={habit.version.decode()}{'p' * habit.pipelines}" for name, habit in self.clients.items()
        ]
        parts += [f"{name}={value}" for name, value in self.settings.items()]
        return " ".join(parts)

    @property
    def confirm(self) -> bool:
        """Whether the relay asks for receipts of its own."""
        return bool(self.settings["confirm"])

    def listener(self, changed: Mapping[str, Any]) -> Listener:
        """Return the listener of the relay, with these settings changed."""
        settings = {**self.settings, **changed}
        made = [
            Broker(
                f"tcp://{name}",
                f"tcp:host=192.0.2.{at}:port=61613",
                f"192.0.2.{at}",
                tls=self.settings["broker_tls"],
                path=PATH if self.settings["broker_web"] else None,
            )
            for at, name in enumerate(self.brokers, 1)
        ]
        if self.kind == "failover":
            made = made[: settings.get("brokers")]
        denied = settings.get("denied", ())
        reconnect = Reconnect(randomize=settings["randomize"], longest_delay=1.0)
        if self.kind == "plain":
            groups = alone(made[0])
        elif self.kind == "fanout":
            groups = tuple([Group(each.uri, (each,), reconnect, Policy.FAILOVER) for each in made])
        else:
            groups = (Group("main", tuple(made), reconnect, settings["policy"]),)
        upstream = Upstream(
            "main",
            groups,
            heart_beat=Terms(1000, 1000, tolerance=2.5) if settings["beats"] else Terms(),
            connect_timeout=2.0,
            disconnect_timeout=settings["disconnect_timeout"],
            confirm=settings["confirm"] and self.kind != "plain",
            resend_buffer=settings["buffer"],
            quorum=len(groups) if settings["all"] else 1,
            drain_timeout=1.0,
            checks=Checks(longest_pause=2.0),
            tls=ClientTLS(certificate() if settings["broker_tls"] else None, name=NAME),
        )
        return Listener(
            "public",
            f"tcp:{PLACE[1]}:interface={PLACE[0]}",
            upstream,
            heart_beat=Terms(1000, 1000) if settings["beats"] else Terms(),
            unacknowledged=settings["unacknowledged"],
            trace=settings["trace"],
            versions=frozenset(settings.get("versions", VERSIONS)),
            limits=Limits(body=settings.get("body", min(settings["memory"] // 4, 1 << 20))),
            clients=settings.get("clients"),
            rates=RateLimits(Rates(frames=settings.get("frames"))),
            tls=ServerTLS(certificate(), certificate()) if settings["tls"] else None,
            web=Web() if settings["web"] else None,
            rules=AccessRules((AccessRule(1, False, denied, denied),), True) if denied else None,
        )


class Plan(NamedTuple):
    """A world to be played: the seed of its chance, its scene, and its steps in the order of their times."""

    seed: str
    scene: Scene
    steps: tuple[Step, ...]

    def script(self) -> str:
        """Return the plan as text, a step a line."""
        return "\n".join([str(self.scene), *map(str, self.steps)])


def draw(seed: int, number: int) -> Plan:
    """Return the plan of a world."""
    chance = Random(f"{seed}/{number}")
    random, choice = chance.random, chance.choice
    kind = choice(KINDS)
    count = 1 if kind == "plain" else 2 + (random() < 0.3)
    brokers = {
        "abc"[at]: (choice(PRODUCTS), choice((b"1.0", b"1.1", b"1.2", b"1.2", b"1.2"))) for at in range(count)
    }
    clients, web, secure = {}, random() < 0.3, random() < 0.05
    for at in range(1 + int(random() * 3)):
        clients[f"c{at + 1}"] = Habit(
            choice(VERSIONS),
            random() < 0.2,
            choice((None, 0.1, 1.0)),
            choice((0, 0, 1000)),
            web and random() < 0.6,
            secure,
        )
    bad = random()
    weather = (choice((0.0, 0.3, 0.9)), choice((0.0, 0.0, 0.2)), choice((0.001, 0.02, 0.3)))
    settings = {
        "confirm": random() < 0.6,
        "buffer": choice((1 << 20, 1 << 20, 600)),
        "unacknowledged": choice((1000, 1000, 3)),
        "beats": random() < 0.5,
        "trace": random() < 0.2,
        "fast": random() < 0.5,
        "size": choice((1 << 16, 1 << 16, 2048)),
        "frames": choice((None, None, None, 10.0, 3.0)),
        "memory": choice((*[1 << 30] * 9, 200_000)),
        "journal": random() < 0.06,
        "web": web,
        "tls": secure,
        "broker_web": random() < 0.06,
        "broker_tls": random() < 0.03,
        "randomize": random() < 0.3,
        "policy": choice((Policy.FAILOVER, Policy.FAILOVER, None, Policy.TOGETHER)) or Policy.FAILOVER,
        "all": random() < 0.5,
        "disconnect_timeout": choice((0.5, 5.0)),
        "stop_timeout": choice((0.0, 1.0, 5.0)),
    }
    length = choice((2.0, 10.0))
    steps = [Step(random() * 0.5, name, "connect") for name in clients]
    for name in clients:
        steps += [Step(random() * length, name, *_client(chance)) for _ in range(5 + int(random() * 25))]
        steps.append(Step(0.5 * random(), name, "subscribe", (int(random() * 4), int(random() * 3), 1)))
    if bad < 0.85:
        for _ in range(1 + int(random() * 5)):
            steps += _fate(chance, random() * length, [*brokers])
    return Plan(f"{seed}/{number}", Scene(kind, brokers, clients, weather, settings), tuple(sorted(steps)))


_ACTS: Final = (
    *["send"] * 9,
    "burst",
    *["ack"] * 8,
    *[
        "subscribe",
        "subscribe",
        "unsubscribe",
        "nack",
        "begin",
        "commit",
        "commit",
        "abort",
        "pause",
        "connect",
    ],
)
_ENDS: Final = ("disconnect", "vanish", "reset", "half_close")


def _client(chance: Random) -> tuple[str, tuple[int, ...]]:
    random = chance.random
    act = chance.choice(_ENDS if random() < 0.03 else _ACTS)
    asks, some = int(random() < 0.5), int(random() * 1000)
    values: dict[str, tuple[int, ...]] = {
        "send": (some, asks, int(random() < 0.3) * (1 + some), chance.choice((0, 0, 0, 300, 20_000))),
        "burst": (some, 2 + some % 8),
        "ack": (some, asks, int(random() < 0.2) * (1 + some)),
        "nack": (some, asks),
        "subscribe": (some, int(random() * 3), asks),
        "unsubscribe": (some, asks),
        "begin": (asks,),
        "commit": (some, asks),
        "abort": (some, asks),
        "pause": (int(random() * 2000),),
    }
    return act, values.get(act, ())


OTHERS: Final = ("cut", "cut_client", "pause", "relay", "mute", "half_close")


def _fate(chance: Random, at: float, brokers: list[str]) -> list[Step]:
    """Return what happens to a broker or to its connections, and how it ends."""
    random, name = chance.random, chance.choice(brokers)
    later = at + chance.choice((0.0, 0.1, 1.0, 3.0)) * random()
    match chance.choice(("kill", "kill", "kill", "stall", *OTHERS)):
        case "kill":
            return [Step(at, name, "kill", (int(random() * 400),)), Step(later, name, "start")]
        case "stall":
            return [Step(at, name, "stall", (1,)), Step(later, name, "stall", (0,))]
        case "mute":
            return [Step(at, name, "mute", (1,)), Step(later, name, "mute", (0,))]
        case "half_close":
            return [Step(at, name, "half_close", (int(random() * 9),))]
        case "cut":
            return [Step(at, name, "cut", (int(random() * 9), int(random() * 400)))]
        case "cut_client":
            return [Step(at, "relay", "cut", (int(random() * 9), int(random() * 400)))]
        case "relay":
            act = chance.choice(("kill", "stop", "handover", "drain", "lack", "disk", "reload"))
            if act == "disk":
                return [Step(at, "relay", act, (int(random() * 4000),)), Step(later, "relay", act, (-1,))]
            if act == "reload":
                which = int(random() * len(CHANGES))
                return [Step(at, "relay", act, (which,)), Step(later, "relay", act, (len(CHANGES) - 1,))]
            if act in ("drain", "lack"):
                return [Step(at, "relay", act, (1,)), Step(later, "relay", act, (0,))]
            return [Step(at, "relay", act), Step(later, "relay", "start")]
        case _:
            return [
                Step(at, "relay", "pause", (int(random() * 3),)),
                Step(later, "relay", "resume", (int(random() * 3),)),
            ]
