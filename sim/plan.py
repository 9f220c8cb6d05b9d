"""What happens in a world: the scene that it begins with, and the steps. Both come from the seed. Any subset of the
steps is a plan, too: that is how a failing world is made smaller.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from sim.brokers import POISON, PRODUCTS, Product
from sim.clients import Habit
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms

VERSIONS: Final = (b"1.0", b"1.1", b"1.2")
KINDS: Final = ("plain", "failover", "failover", "failover", "fanout")
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

    def listener(self) -> Listener:
        """Return the listener of the relay."""
        made = [
            Broker(f"tcp://{name}", f"tcp:host=192.0.2.{at}:port=61613", f"192.0.2.{at}")
            for at, name in enumerate(self.brokers, 1)
        ]
        settings = self.settings
        reconnect = Reconnect(
            randomize=settings["randomize"], longest_delay=settings.get("longest_delay", 1.0)
        )
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
        )
        return Listener(
            "public",
            f"tcp:{PLACE[1]}:interface={PLACE[0]}",
            upstream,
            heart_beat=Terms(1000, 1000) if settings["beats"] else Terms(),
            unacknowledged=settings["unacknowledged"],
            trace=settings["trace"],
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
    clients = {}
    for at in range(1 + int(random() * 3)):
        clients[f"c{at + 1}"] = Habit(
            choice(VERSIONS), random() < 0.2, choice((None, 0.1, 1.0)), choice((0, 0, 1000)), random() < 0.3
        )
        if random() < 0.02:
            clients[f"c{at + 1}"] = clients[f"c{at + 1}"]._replace(login=POISON, returns=None)
    bad = random()
    weather = (choice((0.0, 0.3, 0.9)), choice((0.0, 0.0, 0.2)), choice((0.001, 0.02, 0.3)))
    settings = {
        "confirm": random() < 0.6,
        "buffer": choice((1 << 20, 1 << 20, 600)),
        "unacknowledged": choice((1000, 1000, 3)),
        "beats": random() < 0.5,
        "trace": random() < 0.2,
        "randomize": random() < 0.3,
        "policy": choice((Policy.FAILOVER, Policy.FAILOVER, None, Policy.TOGETHER)) or Policy.FAILOVER,
        "all": random() < 0.5,
        "disconnect_timeout": choice((0.5, 5.0)),
        "longest_delay": choice((1.0, 1.0, 60.0)),
    }
    length = choice((2.0, 10.0))
    steps = [Step(random() * 0.5, name, "connect") for name in clients]
    for name in clients:
        steps += [Step(random() * length, name, *_client(chance)) for _ in range(5 + int(random() * 25))]
        if random() < 0.1:
            last = random() * length
            steps += [Step(last, name, "disconnect"), Step(last + random(), name, choice(_ENDS[1:4]))]
        elif random() < 0.2:  # last words
            last = random() * length
            steps += [
                Step(last, name, "send", (int(random() * 4), int(random() * 2), 0, choice((0, 20_000))))
                for _ in range(3)
            ]
            steps.append(Step(last + random() * 0.1, name, choice(_ENDS)))
        steps.append(Step(0.5 * random(), name, "subscribe", (int(random() * 4), int(random() * 3), 1)))
    if bad < 0.85:
        at = 0.0
        for _ in range(1 + int(random() * 5)):
            at = at + random() if at and random() < 0.5 else random() * length
            steps += _fate(chance, at, [*brokers])
    if settings["longest_delay"] > 1.0:  # brokers that poison makes go are asked after growing pauses
        steps = [step for step in steps if step.act != "poison"]
    return Plan(f"{seed}/{number}", Scene(kind, brokers, clients, weather, settings), tuple(sorted(steps)))


_ACTS: Final = (
    *["send"] * 10,
    *["ack"] * 8,
    *[
        "subscribe",
        "subscribe",
        "unsubscribe",
        "nack",
        "begin",
        "begin",
        "commit",
        "commit",
        "abort",
        "pause",
        "connect",
    ],
)
_ENDS: Final = ("disconnect", "vanish", "reset", "half_close", "fault", "poison", "silence")


def _client(chance: Random) -> tuple[str, tuple[int, ...]]:
    random = chance.random
    act = chance.choice(_ENDS if random() < 0.05 else _ACTS)
    asks, some = int(random() < 0.5), int(random() * 1000)
    values: dict[str, tuple[int, ...]] = {
        "send": (some, asks, int(random() < 0.5) * (1 + some), chance.choice((0, 0, 0, 300, 20_000))),
        "ack": (some, asks, int(random() < 0.4) * (1 + some)),
        "nack": (some, asks),
        "subscribe": (some, int(random() * 3), asks),
        "unsubscribe": (some, asks),
        "begin": (asks,),
        "commit": (some, asks),
        "abort": (some, asks),
        "pause": (int(random() * 2000),),
        "poison": (some,),
    }
    return act, values.get(act, ())


def _fate(chance: Random, at: float, brokers: list[str]) -> list[Step]:
    """Return what happens to a broker or to its connections, and how it ends."""
    random, name = chance.random, chance.choice(brokers)
    later = at + chance.choice((0.0, 0.1, 1.0, 3.0, 20.0)) * random()
    match chance.choice(
        ("kill", "kill", "kill", "stall", "cut", "cut_client", "pause", "pause", "mood", "outage")
    ):
        case "kill":
            return [
                Step(at, name, "kill", (int(random() * 400), int(random() < 0.3))),
                Step(later, name, "start"),
            ]
        case "outage":
            most = int(random() * 400)
            steps = [Step(at + random() * 0.1, each, "kill", (most, 0)) for each in brokers]
            return [*steps, *[Step(later, each, "start") for each in brokers]]
        case "mood":
            mood = 1 + int(random() * 2)
            if random() < 0.5:
                return [Step(0.0, name, "mood", (1,))]  # to the end of the weather
            return [Step(at, name, "mood", (mood,)), Step(later, name, "mood", (0,))]
        case "stall":
            end = Step(later, name, "stall", (0,)) if random() < 0.6 else Step(later, name, "kill", (0, 0))
            return [Step(at, name, "stall", (1,)), end, Step(later + random(), name, "start")]
        case "cut":
            return [Step(at, name, "cut", (int(random() * 9), int(random() * 400)))]
        case "cut_client":
            return [Step(at, "relay", "cut", (int(random() * 9), int(random() * 400)))]
        case _:
            return [
                Step(at, "relay", "pause", (int(random() * 3),)),
                Step(later, "relay", "resume", (int(random() * 3),)),
            ]
