"""A plan in which something is found, made smaller while the same is found in it; and such a plan as a test."""

import inspect
import time
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from enum import Enum
from itertools import islice
from textwrap import fill
from typing import Any, Final

from sim.brokers import PRODUCTS, Product
from sim.clients import Client, Habit
from sim.judge import RULES, Finding
from sim.plan import CALM, PLAIN, Plan, Scene, Step
from sim.run import played, shape

LONGEST: Final = 50.0
"""Seconds for one plan: what is found until then is returned."""

_PLAINEST: Final = PRODUCTS[-1]


class Shrinking:
    """Makes a plan smaller. `key` is the shape of what is found in it."""

    def __init__(self, plan: Plan, key: tuple[str, str], seconds: float = LONGEST) -> None:
        self.plan = plan
        self._key = key
        self._until = time.monotonic() + seconds
        self._tried = {repr(plan)}

    def result(self) -> Plan:
        """Return the smallest plan that was found."""
        size = None
        while size != (size := repr(self.plan)):
            self._shorten()
            self._simplify()
        return self.plan

    def _works(self, plan: Plan) -> bool:
        """Go on with this plan, if the same is found in it."""
        text = repr(plan)
        if text in self._tried or time.monotonic() > self._until:
            return False
        self._tried.add(text)
        if self._key not in map(shape, played(plan)):
            return False
        self.plan = plan
        return True

    def _simplify(self) -> None:
        """Make it plainer, one thing after the other."""
        at = 0
        while (each := next(islice(plainer(self.plan), at, None), None)) is not None:
            at += not self._works(each)

    def _shorten(self) -> None:
        """Leave out steps: half of them at once, and less and less."""
        count = len(self.plan.steps)
        while count := count // 2:
            at = len(self.plan.steps)
            while at > 0:
                at -= count
                steps = self.plan.steps
                self._works(self.plan._replace(steps=steps[: max(at, 0)] + steps[at + count :]))


def plainer(plan: Plan) -> Iterator[Plan]:
    """Yield plans that differ from this one in one thing, and there are plainer to read."""
    scene, steps = plan.scene, plan.steps
    for name in scene.brokers:
        yield _without(plan, name)
    for each in _scenes(scene, {step.who for step in steps}):
        yield plan._replace(scene=each)
    for times in _times([step.at for step in steps]):
        if times == sorted(times):
            both = zip(steps, times, strict=True)
            yield plan._replace(steps=tuple([step._replace(at=new) for step, new in both]))
    for at, step in enumerate(steps):
        for place, value in enumerate(step.values):
            for new in range(min(value, 4)):
                values = (*step.values[:place], new, *step.values[place + 1 :])
                yield plan._replace(steps=(*steps[:at], step._replace(values=values), *steps[at + 1 :]))
    # What chance draws depends on what happened before. With another seed a step may not be needed any more.
    for seed in "12345":
        for name in scene.brokers:
            yield _without(plan._replace(seed=seed), name)
        for at in range(len(steps)):
            yield Plan(seed, scene, steps[:at] + steps[at + 1 :])


def _without(plan: Plan, name: str) -> Plan:
    """Return a plan without a broker. Those behind it get the names in front of theirs."""
    brokers = plan.scene.brokers
    names = dict(zip([each for each in brokers if each != name], brokers, strict=False)) or {name: name}
    scene = replace(plan.scene, brokers={new: brokers[old] for old, new in names.items()})
    steps = [s for s in plan.steps if s.who != name or name in names]
    return Plan(plan.seed, scene, tuple([s._replace(who=names.get(s.who, s.who)) for s in steps]))


def _scenes(scene: Scene, active: set[str]) -> Iterator[Scene]:
    yield replace(scene, clients={name: each for name, each in scene.clients.items() if name in active})
    if scene.kind != "plain":
        yield replace(scene, kind="plain" if len(scene.brokers) == 1 else "failover")
    for each in fields(scene):
        if each.default is not MISSING:
            yield replace(scene, **{each.name: each.default})
    pieces, short, slowest = scene.weather
    for weather in (CALM, (0.0, short, slowest), (pieces, 0.0, slowest), (pieces, short, CALM[2])):
        yield replace(scene, weather=weather)
    habits = {name: Habit(each.version) for name, each in scene.clients.items()}
    for name, value in PLAIN.items():
        settings = scene.settings | {name: value}
        yield replace(scene, settings=settings)
        yield replace(scene, settings=settings, clients=habits)  # some settings are those of clients, too
    for name, (product, version) in scene.brokers.items():
        for broker in ((_PLAINEST, version), (product, b"1.2")):
            yield replace(scene, brokers=scene.brokers | {name: broker})
    for name, habit in scene.clients.items():
        for plain in ({"version": b"1.2"}, *[{key: value} for key, value in habit._field_defaults.items()]):
            yield replace(scene, clients=scene.clients | {name: habit._replace(**plain)})


def _times(times: list[float]) -> Iterator[list[float]]:
    for gap in (0.5, 0.1):
        even = [round(gap * at, 1) for at in range(len(times))]
        if times == even:
            return
        yield even
    for digits in (1, 2, 3):
        yield [round(each, digits) for each in times]
        for at, each in enumerate(times):
            yield [*times[:at], round(each, digits), *times[at + 1 :]]


# A plan as a test


def script(plan: Plan, finding: Finding, name: str) -> str:
    """Return a test for `tests/sim/test_kept.py` that plays this plan. `name`: of the world that it was made of."""
    scene = plan.scene
    sentences = {rule.__name__: inspect.getdoc(rule) or "" for rule in RULES}
    intent = fill(sentences.get(finding.rule, finding.rule), 105, subsequent_indent="    ")
    end = "\n    " if "\n" in intent else ""
    lines = [
        f"def test_{finding.rule}_{name.replace('/', '_')}() -> None:",
        f'    """{intent}{end}"""',
        "    scene = Scene(",
        *[f"        {each}," for each in _parts(scene)],
        "    )",
        "    steps = (",
        *[
            f"        {source(step)},{_named(step) if step.who in scene.clients else ''}"
            for step in plan.steps
        ],
        "    )",
        f"    assert played(Plan({source(plan.seed)}, scene, steps)) == []",
    ]
    return "\n".join(lines).replace("'", '"') + "\n"


def _parts(scene: Scene) -> Iterator[str]:
    for field in fields(scene):
        value = getattr(scene, field.name)
        if value == CALM:
            yield "CALM"
        elif value is scene.settings:
            rest = {name: each for name, each in value.items() if each != PLAIN.get(name)}
            yield f"PLAIN | {source(rest)}" if rest else "PLAIN"
        elif field.default is MISSING:
            yield source(value)
        elif value != field.default:
            yield f"{field.name}={source(value)}"


def source(value: Any) -> str:
    """Return a value as it is written in Python."""
    if isinstance(value, Product):
        plainly = next(each for each in PRODUCTS if each.name == value.name)
        pairs = zip(Product._fields, value, plainly, strict=True)
        rest = [f"{name}={source(each)}" for name, each, plain in pairs if each != plain]
        return f"PRODUCT[{value.name!r}]" + (f"._replace({', '.join(rest)})" if rest else "")
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, dict):
        return f"{{{', '.join([f'{name!r}: {source(each)}' for name, each in value.items()])}}}"
    kind: Any = type(value)
    if hasattr(kind, "_field_defaults"):
        plain = kind._field_defaults
        given = [
            source(each) if name not in plain or name == "values" else f"{name}={source(each)}"
            for name, each in zip(kind._fields, value, strict=True)
            if name not in plain or each != plain[name]
        ]
        return f"{kind.__name__}({', '.join(given)})"
    if isinstance(value, tuple):
        return f"({', '.join([source(each) for each in value])}{',' * (len(value) == 1)})"
    return repr(value)


def _named(step: Step) -> str:
    """Return a comment that names the numbers of a client's step."""
    names = list(inspect.signature(getattr(Client, step.act)).parameters)[1:]
    said = [f"{name} {value}" for name, value in zip(names, step.values, strict=False)]
    return f"  # {', '.join(said)}" if said else ""
