"""World after world, in one process or in several: what was found in them, and whether memory grows."""

import gc
import linecache
import re
import signal
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import inf
from multiprocessing import get_context
from typing import Final

from sim.judge import Finding, judge
from sim.plan import Plan, draw
from sim.world import World, simulated

WARM: Final = 100
"""So many worlds are played first. At the end they are played again, and must leave as much memory in use."""

SPARE: Final = 500
"""Blocks of memory by which both may differ: what the interpreter keeps to use again, and what was found."""

CACHED: Final = 2000
"""So many entries may be in a cache: as many as there are ways to pair versions, products and settings."""

ENDLESS: Final = 30
"""Seconds after which a world is taken for one without an end; others take some milliseconds."""

_CACHE: Final = type(lru_cache(len))

_NAMES: Final = (
    (r"0x[0-9a-f]+", "0"),
    (r" (?!message:)[\w-]+:\S+", ""),
    (r"\b(c\d+|[abc])(\.\d+)*\b\.*", "x"),
    (r"\d+(\.\d+)?", "0"),
    (r"\bx( x)+\b", "x"),
)
"""What two findings of one shape do not have in common, and what stands for it."""


def brief(finding: Finding) -> str:
    """Return what was found in a line; of a traceback the first and the last line."""
    lines = finding.text.strip().splitlines()
    return " ".join(dict.fromkeys([lines[0], lines[-1]]))


def shape(finding: Finding) -> tuple[str, str]:
    """Return the rule and what was found, in brief and without names and numbers."""
    text = brief(finding)
    for what, instead in _NAMES:
        text = re.sub(what, instead, text)
    return finding.rule, text[:120]


def played(plan: Plan) -> list[Finding]:
    """Play a world, and return what is wrong in it; exceptions of the simulator, and an endless loop, too."""
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(ENDLESS)
    try:
        return judge(World(plan).play())
    except Exception:
        return [Finding("the_world_can_be_played", traceback.format_exc())]
    finally:
        signal.alarm(0)


def _interrupt(*_: object) -> None:
    raise TimeoutError(f"the world takes more than {ENDLESS} seconds")


@dataclass
class Result:
    """Sums over all worlds. `processor`: seconds of processor time; `growth` is in blocks of memory. `found`: by shape,
    the number of each world in which it was found, with its scene and what was found.
    """

    seed: int
    worlds: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    growth: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[str, str], list[tuple[int, str, Finding]]] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether something is not as it must be."""
        return bool(self.found) or self.growth > SPARE

    def add(self, other: "Result") -> None:
        """Add the figures of other worlds, which were played at the same time."""
        self.worlds += other.worlds
        self.seconds = max(self.seconds, other.seconds)
        self.processor += other.processor
        self.growth = max(self.growth, other.growth)
        self.kinds += other.kinds
        for key, worlds in other.found.items():
            self.found[key] = self.found.get(key, []) + worlds

    def play(self, number: int) -> None:
        """Play a world, and count what is found in it. A new shape is printed at once."""
        plan = draw(self.seed, number)
        self.worlds += 1
        self.kinds[plan.scene.kind] += 1
        for key, finding in {shape(each): each for each in reversed(played(plan))}.items():
            if key not in self.found:
                print(f"world {number}: {finding.rule}: {brief(finding)[:200]}", flush=True)
            self.found.setdefault(key, []).append((number, str(plan.scene), finding))

    def progress(self) -> str:
        """Return a line that says how far the run has come."""
        rate = self.worlds / max(self.processor, 0.001)
        return (
            f"{self.seconds:6.0f} s  {self.worlds:,} worlds, {rate:.0f} a second of a core"
            f"  {len(self.found)} shapes of findings"
        )

    def __str__(self) -> str:
        lines = [f"{count:10,} {kind}" for kind, count in sorted(self.kinds.items())]
        lines += [f"{self.growth:10,} blocks of memory more at the end", self.progress()]
        if self.growth > SPARE:
            lines.append(f"FOUND memory grows: {self.growth:,} blocks, {SPARE} are allowed")
        for worlds in self.found.values():
            world, scene, finding = min(worlds)
            lines.append(f"FOUND in {len(worlds):,} worlds: {str(finding)[:1500]}")
            lines.append(f"  python -m sim --seed {self.seed} --world {world} --watch  ({scene})")
        return "\n".join(lines)


def run(seed: int, first: int = 0, step: int = 1, *, seconds: float = inf, worlds: float = inf) -> Result:
    """Play each world from the first on whose number is `step` more, for so long, or so many. Say how it goes on."""
    result = Result(seed)
    began, busy = time.monotonic(), time.process_time()
    told = began
    before = None
    with simulated():
        while result.worlds < worlds and result.seconds < seconds:
            result.play(first + step * result.worlds)
            result.seconds, result.processor = time.monotonic() - began, time.process_time() - busy
            if result.worlds == WARM:
                time.strptime("1", "%S")  # Python imports a module at the first call, and few worlds make it
                before = _blocks()
            if time.monotonic() - told > 10 and first == 0:
                told = time.monotonic()
                print("" if step == 1 else f"1 of {step} processes:", result.progress(), flush=True)
        if before is not None:
            for number in range(WARM):
                played(draw(seed, first + step * number))
            result.growth = _blocks() - before
    return result


def run_all(seed: int, jobs: int, *, seconds: float = inf, worlds: float = inf) -> Result:
    """Play worlds in so many processes. Return the figures of all of them."""
    if jobs == 1:
        return run(seed, seconds=seconds, worlds=worlds)
    result = Result(seed)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        play = partial(run, seed, step=jobs, seconds=seconds, worlds=worlds / jobs)
        for each in processes.map(play, range(jobs)):
            result.add(each)
    return result


def _blocks() -> int:
    """Empty all caches. Return the blocks of memory in use then."""
    linecache.clearcache()  # tracebacks fill it
    sys._clear_type_cache()  # it keeps names of methods that were looked for, such as rough clients' commands
    gc.unfreeze()
    _empty_caches()
    while gc.collect():  # what finalizers leave is found next
        pass
    gc.freeze()
    return sys.getallocatedblocks()


def _empty_caches() -> None:
    for each in gc.get_objects():
        if isinstance(each, _CACHE):
            ours = str(getattr(each, "__module__", "")).startswith("stomprelay.")
            assert not ours or each.cache_info().currsize <= CACHED, f"{each} has no bound"
            each.cache_clear()
