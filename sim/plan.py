"""What happens in a world: the scene that it begins with, and the steps. Both come from the seed. Any subset of the
steps is a plan, too: that is how a failing world is made smaller.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

from sim.brokers import PRODUCTS, Product
from sim.clients import Habit
from sim.layers import NAME, PATH, certificate
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect, alone
from stomprelay.relay.model.listener import Listener, LossPolicy, Match, Route, ServerTLS, Web
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.move import Move, Phase
from stomprelay.relay.model.names import NameRow, Pattern
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

PLAIN: Final[dict[str, Any]] = {
    "confirm": False,
    "confirm_timeout": 60.0,
    "buffer": 1 << 20,
    "unacknowledged": 1000,
    "beats": False,
    "trace": False,
    "randomize": False,
    "policy": Policy.FAILOVER,
    "all": False,
    "disconnect_timeout": 5.0,
    "stop_timeout": 5.0,
    "longest_delay": 1.0,
    "size": 1 << 16,
    "frames": None,
    "memory": 1 << 30,
    **dict.fromkeys(("mapped", "fast", "tls", "web", "broker_tls", "broker_web", "journal"), False),
}
"""The settings at their plainest. A failing world is brought as near to it as it still fails."""

MOVED: Final = (NameRow(Pattern("/queue/{name}"), Pattern("/queue/moved.{name}")),)
"""How brokers spell the names of queues in a world that is `mapped`."""

CALM: Final = (0.0, 0.0, 0.001)
"""Weather in which nothing is cut, and nothing takes long."""

TIGHT: Final[dict[str, Any]] = {
    "before_connect": 300,
    "unacknowledged": 4,
    "transactions": 1,
    "subscriptions": 3,
    "kept": 4000,
    "limits": Limits(headers=12, header_line=200, body=2000),
}
"""Limits of a listener that clients exceed."""


class Step(NamedTuple):
    """At a time, `who` (a client, a broker, or the `relay`) does something. Numbers choose among what there is then."""

    at: float
    who: str
    act: str
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What a world begins with. `brokers` are products and their highest versions by name; `clients` habits by name.

    mood      the share of what brokers say that is wrong
    tight     clients exceed limits of the listener, and searches for a broker are given up
    routed    what begins with `/queue/c` goes to the last broker, by a route
    moving    `routed`, by a move: how far it has gone the steps say
    auth      clients are identified
    loss      what becomes of values that the other version cannot express
    closes    an ERROR of a broker ends its session
    home      sessions return to the first broker
    versions  those to ask brokers for; none: the client's and lower ones
    alone     a SEND to a queue goes to one group alone
    """

    kind: str
    brokers: dict[str, tuple[Product, bytes]]
    clients: dict[str, Habit]
    weather: tuple[float, float, float]
    settings: dict[str, Any]
    mood: float = 0.0
    tight: bool = False
    routed: bool = False
    moving: bool = False
    auth: bool = False
    loss: LossPolicy = LossPolicy.REPLACE
    closes: bool = False
    home: bool = False
    versions: tuple[bytes, ...] = ()
    alone: bool = False

    def __str__(self) -> str:
        parts = [self.kind]
        parts += [f"{name}={product.name}/{most.decode()}" for name, (product, most) in self.brokers.items()]
        for name, each in self.clients.items():
            parts.append(f"{name}={each.version.decode()}{'p' * each.pipelines}{'r' * (each.rough > 0)}")
        odd = {each.name: getattr(self, each.name) for each in fields(self) if each.default is not MISSING}
        plain = {each.name: each.default for each in fields(self)} | PLAIN
        odd |= self.settings
        parts += [f"{name}={value}" for name, value in odd.items() if value != plain.get(name)]
        return " ".join(parts)

    @property
    def confirm(self) -> bool:
        """Whether the relay asks for receipts of its own."""
        return bool(self.settings["confirm"])

    def listener(self, changed: Mapping[str, Any], move: Move) -> Listener:
        """Return the listener of the relay, with these settings changed. `move`: see `moving`."""
        settings = {**self.settings, **changed}
        path = PATH if settings["broker_web"] else None
        secure = settings["broker_tls"]
        made = [
            Broker(f"tcp://{name}", f"tcp:host={host}:port=61613", host, tls=secure, path=path)
            for name, host in zip(self.brokers, map("192.0.2.{}".format, count(1)), strict=False)
        ]
        last = made.pop() if self.routed else None
        if self.kind == "failover":
            made = made[: settings.get("brokers")]
        limits: dict[str, Any] = {"attempts": 3, "startup_attempts": 2, "timeout": 3.0} if self.tight else {}
        reconnect = Reconnect(
            randomize=settings["randomize"],
            longest_delay=settings["longest_delay"],
            priority_backup=self.home,
            **limits,
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
            confirm_timeout=settings["confirm_timeout"],
            resend_buffer=settings["buffer"],
            quorum=len(groups) if settings["all"] else 1,
            drain_timeout=1.0,
            checks=Checks(longest_pause=2.0),
            versions=frozenset(self.versions) or None,
            close_on_error=self.closes,
            fan_out_queues=not self.alone,
            map=MapSettings(names=MOVED if settings.get("mapped") else ()),
            tls=ClientTLS(certificate() if secure else None, name=NAME),
        )
        routes: tuple[Route, ...] = ()
        if last is not None:
            there = (Group("there", (last,), reconnect, settings["policy"]),)
            over = replace(upstream, name="there", groups=there, quorum=1, confirm=settings["confirm"])
            routes = (Route(Match.PREFIX, "/queue/c", over, move if self.moving else None),)
        denied = settings.get("denied")
        bounds: dict[str, Any] = {"unacknowledged": settings["unacknowledged"]}
        bounds["limits"] = Limits(body=settings.get("body", min(settings["memory"] // 4, 1 << 20)))
        if self.tight:
            bounds |= TIGHT
        return Listener(
            "public",
            f"tcp:{PLACE[1]}:interface={PLACE[0]}",
            upstream,
            routes,
            heart_beat=Terms(1000, 1000) if settings["beats"] else Terms(),
            trace=settings["trace"],
            versions=frozenset(settings.get("versions", VERSIONS)),
            clients=settings.get("clients"),
            rates=RateLimits(Rates(frames=settings["frames"])),
            tls=ServerTLS(certificate(), certificate()) if settings["tls"] else None,
            web=Web() if settings["web"] else None,
            rules=AccessRules((AccessRule(1, False, denied, denied),), True) if denied else None,
            loss=self.loss,
            auth="people" if self.auth else None,
            **bounds,
        )


class Plan(NamedTuple):
    """A world to be played: the seed of its chance, its scene, and its steps in the order of their times."""

    seed: str
    scene: Scene
    steps: tuple[Step, ...]


def draw(seed: int, number: int) -> Plan:
    """Return the plan of a world."""
    chance = Random(f"{seed}/{number}")
    random, choice = chance.random, chance.choice
    kind = choice(KINDS)
    many = 1 if kind == "plain" else 2 + (random() < 0.3)
    brokers = {
        "abc"[at]: (choice(PRODUCTS), choice((b"1.0", b"1.1", b"1.2", b"1.2", b"1.2"))) for at in range(many)
    }
    clients, web, secure = {}, random() < 0.3, random() < 0.05
    for at in range(1 + int(random() * 3)):
        clients[f"c{at + 1}"] = Habit(
            choice(VERSIONS),
            random() < 0.2,
            choice((None, 0.1, 1.0)),
            choice((0, 0, 1000)),
            random() > 0.01,
            web and random() < 0.6,
            secure,
            beats=random() < 0.3,
            chokes=random() < 0.06,
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
        "policy": choice((*[Policy.FAILOVER] * 3, Policy.TOGETHER)),
        "all": random() < 0.5,
        "disconnect_timeout": choice((0.5, 5.0)),
        "stop_timeout": choice((0.0, 1.0, 5.0)),
        "longest_delay": choice((1.0, 1.0, 60.0)),
    }
    length, many = choice((2.0, 10.0)), choice((25, 25, 25, 100))
    steps = [Step(random() * 0.5, name, "connect") for name in clients]
    for name in clients:
        steps += [Step(random() * length, name, *client_act(chance)) for _ in range(5 + int(random() * many))]
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
        steps.append(Step(0.5 * random(), name, "subscribe", (int(random() * 5), int(random() * 3), 1)))
    if bad < 0.85:
        begins = 0.0
        for _ in range(1 + int(random() * 5)):
            begins = begins + random() if begins and random() < 0.5 else random() * length
            steps += _fate(chance, begins, [*brokers])
    if settings["longest_delay"] == 60.0:  # brokers that poison makes go are asked after growing pauses
        steps = [step for step in steps if step.act != "poison"]
    steps += _transactions(Random(f"{seed}/{number}/transactions"), [*clients], length)
    scene = _rougher(Random(f"{seed}/{number}/more"), Scene(kind, brokers, clients, weather, settings))
    moment = Random(f"{seed}/{number}/moment")
    if moment.random() < 0.5:
        scene, steps = _moment(moment, scene)
    scene, steps = _rarer(Random(f"{seed}/{number}/rare"), scene, steps)
    crowd = Random(f"{seed}/{number}/crowd")
    if crowd.random() < 0.25:
        scene, steps = _crowd(crowd, scene)
    unspeakable = Random(f"{seed}/{number}/unspeakable")
    drawn = unspeakable.random()
    if drawn < 0.04:
        scene, steps = _unspeakable(unspeakable, scene, steps)
    elif drawn < 0.055:
        steps = _refused(unspeakable, scene, steps)
    elif drawn < 0.07:
        scene, steps = _ended(unspeakable, scene)
    elif drawn > 0.985:
        scene, steps = _choking(unspeakable, scene, steps)
    scene, steps = _later(f"{seed}/{number}", scene, steps)
    return Plan(f"{seed}/{number}", scene, tuple(sorted(steps)))


def _moving(chance: Random, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps with a move to the last broker, phase by phase or in leaps, and back. Clients use
    what moves more than anything else.
    """
    random, choice = chance.random, chance.choice
    kind = "failover" if scene.kind == "fanout" and len(scene.brokers) < 3 else scene.kind
    phase, length, most = choice((0, 0, 0, 4)), choice((4.0, 10.0)), len(Phase) - 1
    moves = []
    for at in sorted(random() * length for _ in range(choice((3, 6, 12)))):
        phase = (
            min(most, max(0, phase + choice((1, 1, 1, -1)))) if random() < 0.85 else choice(range(most + 1))
        )
        moves.append(Step(at, "relay", "move", (phase,)))
    used = {"send", "subscribe", "burst"}
    steps = [
        each._replace(values=(2, *each.values[1:]))
        if each.act in used and each.values and random() < 0.8
        else each
        for each in steps
    ]
    return replace(scene, kind=kind, routed=True, moving=True), steps + moves


def _later(name: str, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps with what came later: names of brokers, RabbitMQs that reject silently, moves."""
    mapped = Random(f"{name}/mapped").random() < 0.1
    overlooks = Random(f"{name}/overlooks").random() < 0.5  # RabbitMQ, from 4.3 on
    if overlooks:
        steps = [each._replace(values=(2,)) if each[2:] == ("fill", (1,)) else each for each in steps]
    more = {"mapped": mapped, "confirm_timeout": 6.0 if overlooks else 60.0}
    scene = replace(scene, settings={**scene.settings, **more})
    silent = Random(f"{name}/overlooked")
    if silent.random() < 0.02:
        scene, steps = _overlooked(silent, scene, steps)
    moves = Random(f"{name}/moves")
    if moves.random() < 0.06 and len(scene.brokers) > 1:
        scene, steps = _moving(moves, scene, steps)
    return scene, steps


def _rarer(chance: Random, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps, in some worlds with what chance alone hardly brings: clients that fall silent
    when they are served, by brokers without heart-beats, too; and in some others with nothing that makes all slow.
    """
    random = chance.random
    silent, exact = random() < 0.04, random() < 0.5
    if exact:
        settings = scene.settings | {"frames": None, "memory": 1 << 30, "size": 1 << 16}
        weather = (*scene.weather[:2], min(scene.weather[2], 0.02))
        scene = replace(scene, settings=settings, weather=weather, tight=False)
    if silent:
        clients = {name: each._replace(pipelines=True, beats=True) for name, each in scene.clients.items()}
        if exact:
            clients = {name: each._replace(version=b"1.2", beat=0) for name, each in clients.items()}
            brokers = {name: (product, b"1.0") for name, (product, _) in scene.brokers.items()}
            scene = replace(scene, brokers=brokers, versions=())
        scene = replace(scene, clients=clients, settings=scene.settings | {"beats": True})
        steps = []
        for name in clients:
            at = 0.3 * random()
            steps += [
                Step(at, name, "connect"),
                Step(at + random() * 0.05, name, "send", (0, 1, 0, 0)),
                Step(at + random() * 0.5, name, "silence"),
            ]
    return scene, steps


def _moment(chance: Random, scene: Scene) -> tuple[Scene, list[Step]]:
    """Return a simpler scene, and steps for one moment: one or two kinds of trouble come to a broker or to all; just
    then clients send, read, subscribe and leave, each in few ways.
    """
    random, choice = chance.random, chance.choice
    alike, product = choice((*VERSIONS, None, None)), choice((*PRODUCTS, None, None, None))
    counts = random() < 0.15
    brokers = {name: (product or own, alike or most) for name, (own, most) in scene.brokers.items()}
    if counts:
        brokers = {
            name: (choice(PRODUCTS[1:])._replace(counts=True), each[1]) for name, each in brokers.items()
        }
    nacks, beats = all(each.nacks_1_0 for each, _ in brokers.values()), random() < 0.2
    poisons = random() < 0.15
    clients = {}
    for name, habit in scene.clients.items():
        version = alike or habit.version
        nacked = nacks or version != b"1.0"
        clients[name] = Habit(version, habit.pipelines, habit.returns, beats=beats, nacks=nacked)
    settings = PLAIN | {
        "confirm": random() < 0.7,
        "beats": beats or random() < 0.2,
        "disconnect_timeout": choice((0.5, 5.0, 5.0)),
        "unacknowledged": choice((1000, 1000, 3)),
        "buffer": choice((1 << 20, 1 << 20, 600)),
        "all": random() < 0.5,
        "fast": random() < 0.5,
        "longest_delay": 1.0 if poisons else choice((1.0, 1.0, 60.0)),
        "policy": choice((Policy.FAILOVER, Policy.FAILOVER, Policy.TOGETHER)),
    }
    begins, length = 1.0 + random(), choice((0.1, 0.5, 2.0))
    late = begins * int(random() < 0.15)  # clients come when there is trouble
    steps = [Step(late + 0.3 * random(), name, "connect") for name in clients]
    first, how, second = choice(_STORIES)
    names = [*brokers]
    hit = choice((names[:1], names[:1], names, names, [choice(names)]))
    for number, name in enumerate(names):
        at = begins + length * random()
        if name in hit:
            steps += _trouble(chance, first, at, name, number)
        if second and how != "then" and (name in hit) is not (how == "elsewhere"):
            steps += _trouble(chance, second, at, name, number)
    if how == "then":
        at, name = max([step.at for step in steps]) + choice((0.05, 0.3, 1.0)) * random(), choice(hit)
        steps += _trouble(chance, second, at, name, names.index(name))
    leaves = choice(_LEAVES)
    for name in clients:
        steps += _busy(chance, name, begins + late, length, leaves, poisons)
    scene = replace(
        scene,
        brokers=brokers,
        clients=clients,
        weather=(choice((0.0, 0.9)), 0.0, choice((0.001, 0.02, 0.3))),
        settings=settings,
        mood=0.0,
        tight=False,
        routed=False,
        auth=False,
        versions=(),
    )
    return scene, steps


def _crowd(chance: Random, scene: Scene) -> tuple[Scene, list[Step]]:
    """Return a simple scene with five clients, and steps. All that happens comes at four times, one soon after the
    other: brokers have trouble at the first two, an operator may take such a broker out of service then; clients send
    and read at any of them, and leave last, each in its own order.
    """
    random, choice = chance.random, chance.choice
    kind = choice((scene.kind, "failover")) if len(scene.brokers) > 1 + scene.routed else scene.kind
    scene, _ = _moment(chance, replace(scene, kind=kind))
    habits, names = [*scene.clients.values()] * 5, [*scene.brokers]
    clients = {f"c{at + 1}": habits[at] for at in range(5)}
    times = [1.0 + random()]
    for _ in range(3):
        times.append(times[-1] + choice((0.03, 0.3, 1.0)) * (0.5 + random()))

    def soon(first: int = 0, last: int = 4) -> float:
        return choice(times[first:last]) + 0.03 * random()

    steps = []
    for _ in range(choice((2, 3, 3))):
        what, at, looks = choice(_TROUBLES), soon(0, 2), random() < 0.4
        for name in choice((names[:1], names[:1], names, [choice(names)])):
            steps += _trouble(chance, what, at, name, names.index(name))
            steps += _trouble(chance, "pause", soon(1), name, names.index(name)) if looks else []
    for name in clients:
        here = 0.3 * random() if random() < 0.8 else soon()
        steps.append(Step(here, name, "connect"))
        for _ in range(choice((0, 1, 2, 2))):
            steps.append(Step(here + 0.4, name, "subscribe", (int(random() * 5), int(random() * 3), 1)))
        at, values = soon(), (choice((0, 2, 3)), int(random() < 0.7), 0, 0)
        steps += [Step(at + 0.01 * random(), name, "send", values) for _ in range(choice((1, 3, 6)))]
        steps += [Step(at + 0.01, name, "disconnect")] * (random() < 0.3)  # it came for this only
        for act, value in (("burst", 6), ("burst", 6), ("unsubscribe", 1), ("ack", 1), ("ack", 1)):
            if random() < 0.5:
                steps.append(Step(soon(), name, act, (int(random() * 4), value)))
        if random() < 0.7:
            steps += [Step(soon(1), name, act) for act in (choice(_LEAVES), choice(("", *_ENDS[1:4]))) if act]
    settings = scene.settings | {"unacknowledged": choice((1000, 3, 1))}
    return replace(scene, clients=clients, settings=settings), steps


_TROUBLES: Final = (
    *["kill", "hang", "restart"] * 3,
    *["stall", "away", "goes", "part", "mute", "pause"],
)


def _unspeakable(chance: Random, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps of clients, with some SENDs whose headers cannot be said to brokers of 1.0."""
    some, many = chance.choice((0.1, 0.3)), len(scene.brokers) > 1 + scene.routed
    steps = [
        step._replace(values=(5 * chance.choice((3, 8, 9)) + step.values[0] % 5, *step.values[1:]))
        if step.act == "send" and chance.random() < some
        else step
        for step in steps
        if step.who in scene.clients
    ]
    kind, versions = chance.choice((scene.kind, "fanout" if many else scene.kind)), ((), (b"1.0",))
    return replace(scene, kind=kind, loss=LossPolicy.REJECT, versions=chance.choice(versions)), steps


def _choking(chance: Random, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps, with a client whose CONNECT makes each broker close the connection."""
    product, settings = (
        next(each for each in PRODUCTS if each.chokes),
        scene.settings | {"longest_delay": 1.0},
    )
    brokers = {name: (product, version) for name, (_, version) in scene.brokers.items()}
    clients = scene.clients | {"c1": scene.clients["c1"]._replace(chokes=True, returns=None)}
    steps = [each for each in steps if each.who != "c1"] + [Step(3.0 * chance.random(), "c1", "connect")]
    return replace(scene, brokers=brokers, clients=clients, settings=settings), steps


def _refused(chance: Random, scene: Scene, steps: list[Step]) -> list[Step]:
    """Return the steps of clients, with a last broker that refuses all when the first one is taken out of service."""
    at, last = 1.0 + chance.random(), [*scene.brokers][-1]
    steps = [each for each in steps if each.who in scene.clients]
    return [*steps, Step(at, last, "feel", (1,)), Step(at + chance.random(), "relay", "pause", (0,))]


def _overlooked(chance: Random, scene: Scene, steps: list[Step]) -> tuple[Scene, list[Step]]:
    """Return the scene and the steps of clients, with RabbitMQs that reject without a word what clients send just then,
    and perhaps with what happens else.
    """
    random, choice = chance.random, chance.choice
    product, begins, length = next(each for each in PRODUCTS if each.late), 1.0 + random(), choice((0.5, 5.0))
    brokers = {name: (product, version) for name, (_, version) in scene.brokers.items()}
    steps = [each for each in steps if each.who in scene.clients] if random() < 0.7 else [*steps]
    for name in brokers:
        steps += [Step(begins, name, "fill", (2,)), Step(begins + length, name, "fill", (0,))]
    for name in scene.clients:
        steps += [
            Step(begins + length * random(), name, "send", (choice((0, 2, 3)), int(random() < 0.7), 0, 0))
            for _ in range(choice((1, 3)))
        ]
    settings = {**scene.settings, "confirm_timeout": 6.0}
    return replace(scene, brokers=brokers, settings=settings), steps


def _ended(chance: Random, scene: Scene) -> tuple[Scene, list[Step]]:
    """Return a simple scene of 1.0, and steps: clients end the first of two subscriptions while MESSAGEs come."""
    random, steps = chance.random, []
    scene, _ = _moment(chance, scene)
    product = next(each for each in PRODUCTS if each.lags)
    clients = {name: each._replace(version=b"1.0", nacks=False) for name, each in scene.clients.items()}
    for name in clients:
        steps += [
            Step(0.3 * random(), name, "connect"),
            Step(0.5, name, "subscribe", (0, 2 * int(random() * 2), 0)),
        ]
        steps += [Step(0.6, name, "subscribe", (4, 1 + int(random() * 2), 0))]
        steps += [Step(1.0 + 0.2 * random(), name, "burst", (0, 6)) for _ in range(3)]
        steps += [Step(1.0 + 0.2 * random(), name, "unsubscribe", (0, 1))]
        steps += [Step(1.0 + random(), name, "ack", (0, 1)) for _ in range(9)]
    settings = scene.settings | {"unacknowledged": chance.choice((3, 10))}
    brokers = dict.fromkeys(scene.brokers, (product, b"1.0"))
    return replace(scene, brokers=brokers, clients=clients, settings=settings), steps


def _busy(chance: Random, name: str, begins: float, length: float, leaves: str, poisons: bool) -> list[Step]:
    """Return what a client does just then, and how it leaves, if it does."""
    random, choice = chance.random, chance.choice
    asks, size, reads = choice((0.0, 0.5, 1.0)), choice((0, 0, 0, 20_000)), choice((0, 0, 1, 2))
    inside = int(random() < 0.2)

    def soon(more: float = 0.6) -> float:
        return begins - 0.3 + (length + more) * random()

    def subscribe(at: float) -> Step:
        return Step(at, name, "subscribe", (int(random() * 5), int(random() * 3), int(random() < asks)))

    steps = []
    for _ in range(choice((1, 3, 12))):
        what = choice((0, 0, 2, 3, 4)), int(random() < asks), inside * int(random() * 2), size
        steps.append(Step(soon(), name, "send", what))
    if inside:
        at = soon()
        steps += [Step(at, name, "begin", (0,)), Step(at + (length + 0.5) * random(), name, "commit", (0, 1))]
    if poisons:
        steps.append(Step(soon(), name, "poison", (0, int(random() * 2))))
    for _ in range(choice((1, 2, 3)) if reads else 0):
        steps.append(subscribe(0.3 + (begins - 0.3) * random()))
    for _ in range(choice((0, 4, 12)) if reads else 0):
        steps.append(
            Step(soon(2.0), name, choice(("ack", "ack", "nack")), (int(random() * 6), int(random() * 2)))
        )
    for _ in range(3 if reads == 2 else 0):
        at = soon()
        steps += [Step(at, name, "unsubscribe", (int(random() * 9), int(random() * 2)))]
        steps += [
            subscribe(at + 0.5 * random()),
            Step(at - 0.3 * random(), name, "burst", (int(random() * 3), 6)),
        ]
    if leaves and random() < 0.8:
        steps.append(Step(begins + 1.5 * length * random(), name, leaves))
    if random() < 0.3:
        steps += [Step(soon(1.0), name, "connect") for _ in range(3)]
    return steps


_ACTS: Final = (
    *["send"] * 9,
    *["ack"] * 8,
    *["subscribe", "begin", "commit"] * 2,
    *["burst", "unsubscribe", "nack", "abort", "pause", "connect"],
)
_ENDS: Final = ("disconnect", "vanish", "reset", "half_close", "fault", "silence")
_LEAVES: Final = ("", *["disconnect"] * 3, "vanish", "vanish", *_ENDS)
_STORIES: Final = (
    *[("kill", "", "")] * 3,
    *[("kill", "then", "pause")] * 3,
    *[("stall", "and", "pause")] * 4,
    *[("goes", "and", "kill")] * 3,
    *[("away", "", "")] * 3,
    *[("pause", "elsewhere", "pause")] * 2,
    *[("pause", "elsewhere", "refuses"), ("pause", "elsewhere", "refuse"), ("mute", "and", "pause")],
    *[("kill", "then", "kill"), ("stall", "then", "part"), ("kill", "then", "goes")],
    *[
        (each, "", "")
        for each in ("", "part", "part", "goes", "stall", "stall", "pause", "fill", "mute", "cut")
    ],
)
"""Kinds of trouble: one; a second with it, at one broker when it is over, or at the other brokers."""


def _trouble(chance: Random, what: str, at: float, name: str, number: int) -> list[Step]:
    """Return a kind of trouble that a broker has from then on, and how it ends."""
    random = chance.random
    later = at + chance.choice((1.0, 12.0) if what == "stall" else (0.1, 1.0, 4.0, 12.0)) * random()
    which, most = int(random() * 9), int(random() * 2) * 400
    match what:
        case "kill":
            steps = [Step(at, name, "kill", (most,)), Step(later, name, "start")]
            if random() < 0.4:  # it listens, and needs longer until it serves
                at = later + 0.001
                steps += [Step(at, name, "stall", (1,)), Step(at + 1.5 * random(), name, "stall", (0,))]
            return steps
        case "stall" if random() < 0.6:
            end = [Step(later, name, "kill", (0,)), Step(later + random(), name, "start")]
            return [Step(at, name, "stall", (1,)), *end]
        case "pause":
            return [Step(at, "relay", "pause", (number,)), Step(later, "relay", "resume", (number,))]
        case "part":
            return [Step(at, name, "part")]
        case "away":
            return [Step(at, name, "kill", (most,))]
        case "hang":
            later = at + chance.choice((0.3, 2.0, 6.0))
            return [Step(at, name, "stall", (1,)), Step(later, name, "kill", (0,))]
        case "restart":  # it takes connections, and closes them, before it serves; then it is busy
            later = at + random()
            steps = [Step(at, name, "kill", (most,)), Step(at, name, "feel", (2,))]
            steps += [Step((at + later) / 2, name, "start"), Step(later, name, "feel", (0,))]
            at = later + 0.3 * random()
            return [*steps, Step(at, name, "stall", (1,)), Step(at + random(), name, "stall", (0,))]
        case "cut" | "half_close":
            return [Step(at, name, what, (which, most))]
        case "refuses" | "goes":
            return [Step(at, name, "feel", (1 + (what == "goes"),)), Step(later, name, "feel", (0,))]
        case "":
            return []
        case _:
            return [Step(at, name, what, (1,)), Step(later, name, what, (0,))]


def _transactions(chance: Random, clients: list[str], length: float) -> list[Step]:
    """Return the steps of transactions that take and give, and that last for up to two seconds."""
    steps = []
    for name in clients:
        if chance.random() < 0.2:
            begins = chance.random() * length
            steps += [
                Step(begins, name, "begin", (0,)),
                Step(begins + 0.01, name, "send", (1, 0, 1, 0)),
                Step(begins + chance.random(), name, "ack", (0, 0, 1)),
                Step(begins + 2 * chance.random(), name, "commit", (0, 1)),
            ]
    return steps


def _rougher(chance: Random, scene: Scene) -> Scene:
    """Return the scene with what few worlds have."""
    random, choice = chance.random, chance.choice
    rough = random() < 0.2
    mood = choice((0.0, 0.1, 0.5)) if rough else 0.0
    wild = [choice((0.0, 0.05, 0.3)) if rough else 0.0 for _ in scene.clients]
    brokers, kind = dict(scene.brokers), scene.kind
    routed = random() < 0.15
    if routed:
        brokers["abcd"[len(brokers)]] = choice([*brokers.values()])
    alike = None
    if random() < 0.15:  # brokers give their messages the same names
        kind = choice((kind, "fanout")) if len(brokers) > 1 + routed else kind
        same, version = random() < 0.5, choice((b"1.1", b"1.2"))
        alike = version if same else None
        brokers = {
            name: (choice(PRODUCTS[1:])._replace(counts=True), alike or own)
            for name, (_, own) in brokers.items()
        }
    nacks = all(product.nacks_1_0 for product, _ in brokers.values())
    clients = {}
    for (name, each), share in zip(scene.clients.items(), wild, strict=True):
        version = alike or each.version
        clients[name] = each._replace(
            version=version,
            rough=share,
            lenient=mood > 0 or share > 0,
            nacks=nacks or version != b"1.0",
            returns=None if each.chokes else each.returns,
        )
    return replace(
        scene,
        kind=kind,
        brokers=brokers,
        clients=clients,
        mood=mood,
        tight=rough and random() < 0.25,
        routed=routed,
        auth=random() < 0.2,
        loss=choice([*LossPolicy]) if random() < 0.3 else LossPolicy.REPLACE,
        closes=random() < 0.1,
        home=random() < 0.1,
        versions=choice(((), (), (), (b"1.0",), (b"1.0", b"1.1"))),
        alone=random() < 0.2,
    )


def client_act(chance: Random) -> tuple[str, tuple[int, ...]]:
    """Return what a client does next."""
    random = chance.random
    act = chance.choice(_ENDS if random() < 0.05 else _ACTS) if random() > 0.004 else "poison"
    asks, some = int(random() < 0.5), int(random() * 1000)
    values: dict[str, tuple[int, ...]] = {
        "send": (some, asks, int(random() < 0.5) * (1 + some), chance.choice((0, 0, 0, 300, 20_000))),
        "burst": (some, 2 + some % 8),
        "ack": (some, asks, int(random() < 0.4) * (1 + some)),
        "nack": (some, asks),
        "poison": (some, asks),
        "subscribe": (some, int(random() * 3), asks),
        "unsubscribe": (some, asks),
        "begin": (asks,),
        "commit": (some, asks),
        "abort": (some, asks),
        "pause": (int(random() * 2000),),
    }
    return act, values.get(act, ())


_FATES: Final = (
    *["kill"] * 3,
    *["stall", "cut", "cut_client", "pause", "pause", "refuse", "part", "fill", "relay", "feel", "outage"],
    *["mute", "half_close"],
)


def _fate(chance: Random, at: float, brokers: list[str]) -> list[Step]:
    """Return what happens to a broker or to its connections, and how it ends."""
    random, name = chance.random, chance.choice(brokers)
    later = at + chance.choice((0.0, 0.1, 1.0, 3.0, 20.0)) * random()
    which, most = int(random() * 9), int(random() * 400)

    def spell(who: str, act: str, begin: int, end: int = 0) -> list[Step]:
        return [Step(at, who, act, (begin,)), Step(later, who, act, (end,))]

    match chance.choice(_FATES):
        case "kill":
            return [Step(at, name, "kill", (most,)), Step(later, name, "start")]
        case "stall":
            end = Step(later, name, "stall", (0,)) if random() < 0.6 else Step(later, name, "kill", (0,))
            return [Step(at, name, "stall", (1,)), end, Step(later + random(), name, "start")]
        case "refuse" | "fill" | "mute" as how:
            return spell(name, how, 1)
        case "part":
            return [Step(at, name, "part")]
        case "half_close":
            return [Step(at, name, "half_close", (which,))]
        case "outage":
            steps = [Step(at + random() * 0.1, each, "kill", (most,)) for each in brokers]
            return [*steps, *[Step(later, each, "start") for each in brokers]]
        case "feel":
            if random() < 0.5:
                return [Step(0.0, name, "feel", (1,))]  # to the end of the weather
            return spell(name, "feel", 1 + int(random() * 2))
        case "cut":
            return [Step(at, name, "cut", (which, most))]
        case "cut_client":
            return [Step(at, "relay", "cut", (which, most))]
        case "relay":
            act = chance.choice(("kill", "stop", "handover", "drain", "lack", "disk", "reload"))
            changed = int(random() * len(CHANGES)), len(CHANGES) - 1
            spells = {"drain": (1, 0), "lack": (1, 0), "disk": (10 * most, -1), "reload": changed}
            if act in spells:
                return spell("relay", act, *spells[act])
            return [Step(at, "relay", act), Step(later, "relay", "start")]
        case _:
            return [Step(at, "relay", "pause", (which,)), Step(later, "relay", "resume", (which + most % 2,))]
