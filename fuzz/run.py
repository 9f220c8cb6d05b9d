"""World after world, up to so many bytes or seconds; and what was found in them."""

import gc
import linecache
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Final

from fuzz.caller import Finding
from fuzz.world import World

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

    def line(self) -> str:
        """Say how far the run has come."""
        octets = sum(self.octets)
        return (
            f"{self.seconds:6.0f} s  {self.worlds:,} worlds  {octets:,} bytes"
            f"  {octets / max(self.seconds, 0.001) / 1e6:.1f} MB/s  {len(self.found)} kinds of findings"
        )

    def __str__(self) -> str:
        rows = [
            ("worlds", f"{self.worlds:,}"),
            *((f"  {kind}", f"{count:,}") for kind, count in sorted(self.kinds.items())),
            ("bytes from clients", f"{self.octets[0]:,}"),
            ("bytes from brokers", f"{self.octets[1]:,}"),
            ("frames to clients", f"{self.frames[0]:,}"),
            ("frames to brokers", f"{self.frames[1]:,}"),
            ("inputs", f"{self.inputs:,}"),
            ("seconds", f"{self.seconds:,.1f}"),
            ("blocks of memory more than at the start", f"{self.growth:,}"),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [f"seed {self.seed}", "", *(f"{name:<{width}}  {figure}" for name, figure in rows)]
        if self.growth > SPARE:
            lines.append(f"FOUND: memory grows: {self.growth:,} blocks, {SPARE} are allowed")
        for each in self.found.values():
            lines.append(f"FOUND in {each.count:,} worlds: {each.finding.what} {each.finding.place}")
            lines.append(f"  python -m fuzz --seed {self.seed} --world {each.world}  ({each.scene})")
            lines += [f"  {text}" for text in each.finding.detail[-1500:].splitlines()]
        return "\n".join(lines)


def run(
    seed: int,
    first: int = 0,
    *,
    octets: float = inf,
    seconds: float = inf,
    worlds: float = inf,
) -> Result:
    """Play worlds from the first on until they had so many bytes over both legs, or for so long, or so many worlds.
    How far it has come is printed every ten seconds.
    """
    result = Result(seed)
    began = told = time.monotonic()
    before = _blocks(seed, first)
    while sum(result.octets) < octets and result.seconds < seconds and result.worlds < worlds:
        number = first + result.worlds
        world = World(seed, number)
        world.run()
        result.add(number, world)
        del world
        if result.worlds % 50 == 0:
            result.seconds = time.monotonic() - began
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(result.line(), flush=True)
    result.growth = _blocks(seed, first) - before
    result.seconds = time.monotonic() - began
    return result


def _blocks(seed: int, first: int) -> int:
    """Play the first worlds, and empty all caches. Return the blocks of memory in use then."""
    for number in range(first, first + WARM):
        World(seed, number).run()
    linecache.clearcache()  # tracebacks fill it
    for each in gc.get_objects():
        if isinstance(each, _CACHE):
            ours = str(getattr(each, "__module__", "")).startswith("stomprelay.")
            assert not ours or each.cache_info().currsize <= CACHED, f"{each} has no bound"
            each.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()
