"""World after world, up to so many bytes or seconds; and what was found in them."""

import gc
import linecache
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Final

from fuzz.caller import Finding
from fuzz.plain import Plain
from fuzz.world import Slowest, World

WARM: Final = 300
"""So many worlds are played before all others and after them, and must leave the same."""

SPARE: Final = 800
"""Blocks of memory by which both may differ: what the interpreter keeps to use again, and what was found."""

CACHED: Final = 2000
"""So many entries may be in a cache: as many as there are ways to pair versions, products and settings."""

_CACHE: Final = type(lru_cache(len))


@dataclass
class Found:
    """What was found of one kind: the first world that has it, its scene, and how many have it."""

    finding: Finding
    world: int
    scene: str
    count: int = 1


@dataclass
class Result:
    """Sums over all worlds. `octets` and `frames` are those of clients, then of brokers; `growth` is in blocks of
    memory.
    """

    seed: int
    worlds: int = 0
    seconds: float = 0.0
    inputs: int = 0
    octets: list[int] = field(default_factory=lambda: [0, 0])
    frames: list[int] = field(default_factory=lambda: [0, 0])
    kinds: dict[str, int] = field(default_factory=dict)
    found: dict[tuple[str, str], Found] = field(default_factory=dict)
    growth: int = 0
    slowest: list[tuple[Slowest, int]] = field(default_factory=list)
    """The longest work for one chunk, and in which world: by its time, and by its ratio to a plain chunk."""

    @property
    def failed(self) -> bool:
        """Whether something is not as it must be."""
        return bool(self.found) or self.growth > SPARE

    def add(self, number: int, world: World) -> None:
        """Count a world that was played."""
        self.worlds += 1
        self.inputs += world.inputs
        for side in (0, 1):
            self.octets[side] += world.octets[side]
            self.frames[side] += world.frames[side]
        kind = world.scene.kind
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        for finding in world.findings:
            known = self.found.get(finding.signature)
            if known is None:
                self.found[finding.signature] = Found(finding, number, str(world.scene))
            else:
                known.count += 1
        longest = [*self.slowest, (world.slowest, number)]
        by_time = max(longest, key=lambda each: each[0].seconds)
        by_ratio = max(longest, key=lambda each: each[0].ratio)
        self.slowest = [by_time, by_ratio]


def run(
    seed: int,
    first: int = 0,
    *,
    octets: float = inf,
    seconds: float = inf,
    worlds: float = inf,
    say: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Play worlds from the first on until they had so many bytes over both legs, or for so long, or so many worlds.
    `say` is called every ten seconds.
    """
    result = Result(seed)
    plain = Plain()
    began = told = time.monotonic()
    was_on = gc.isenabled()
    gc.disable()  # it would run in the middle of an input, whose time is taken
    try:
        before = _blocks(seed, first, plain)
        while sum(result.octets) < octets and result.seconds < seconds and result.worlds < worlds:
            number = first + result.worlds
            world = World(seed, number, plain)
            world.run()
            result.add(number, world)
            del world
            if result.worlds % 50 == 0:
                gc.collect()
                result.seconds = time.monotonic() - began
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    say(result)
        result.growth = _blocks(seed, first, plain) - before
    finally:
        if was_on:
            gc.enable()
    result.seconds = time.monotonic() - began
    return result


def _blocks(seed: int, first: int, plain: Plain) -> int:
    """Play the first worlds, and empty all caches. Return the blocks of memory in use then."""
    for number in range(first, first + WARM):
        World(seed, number, plain).run()
        if number % 50 == 0:
            gc.collect()
    linecache.clearcache()  # tracebacks fill it
    for each in gc.get_objects():
        if isinstance(each, _CACHE):
            ours = str(getattr(each, "__module__", "")).startswith("stomprelay.")
            assert not ours or each.cache_info().currsize <= CACHED, f"{each} has no bound"
            each.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()
