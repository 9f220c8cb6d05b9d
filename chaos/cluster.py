"""The pipeline on a cluster of its own, whose driver, executors and workers are killed in turn, again and again.

A standalone master and two workers of one core run on this machine. `stomprelay-pipeline once` makes the tables of a
journal on one machine, undisturbed, and then on the cluster. In the middle of a batch one of these gets SIGKILL: the
driver with its Java and all its Python, and it is started again; an executor with its Python, and the worker starts
another; a worker with all that it runs, and another one joins. Row for row the tables must be the same.
"""

import random
import time
from itertools import cycle
from pathlib import Path
from typing import Final

from chaos import tables
from chaos.source import end, kill
from chaos.verdict import Verdict
from stomprelay.pipeline.schema import TABLES
from tests.e2e.child import Child
from tests.pipeline.cluster.standalone import Standalone, once, standalone

VICTIMS: Final = ("driver", "executor", "worker")
MOMENT: Final = 8.0
"""Seconds after the first sign of a batch up to which somebody is killed."""
_LOOK: Final = 0.05


def begun(child: Child, folder: Path, batch: int, within: float) -> bool:
    """Wait until batches before this one are done and one is at work: its frames are being written, or are there.
    Return False where the run ends before.
    """
    until = time.monotonic() + within
    while time.monotonic() < until:
        if tables.batches(folder) >= batch and tables.torn(folder):
            return True
        if child.exited(_LOOK):
            return False
    raise AssertionError(f"no batch begins:\n{child.last_words}")


def strike(cluster: Standalone, child: Child, victim: str, chance: random.Random) -> None:
    """Kill one of them, as they are now."""
    if victim == "driver":
        end(child)
    elif victim == "executor":
        if there := cluster.executors():
            kill(chance.choice(there))
    else:
        worker = chance.choice(cluster.workers)
        kill(worker.pid)
        worker.stop()
        cluster.workers.remove(worker)
        cluster.join()


def run(home: Path, rounds: int, seed: int, records: int = 3000) -> Verdict:
    """So many kills. `home` is an empty folder."""
    chance = random.Random(seed)
    whole = tables.Undisturbed(home, records, seed)
    killed = dict.fromkeys(VICTIMS, 0)
    turns = cycle(VICTIMS)
    broken: list[str] = []
    folders = mid = 0
    began = time.monotonic()
    (home / "cluster").mkdir()
    with standalone(home / "cluster") as cluster:

        def started() -> Child:
            most = str(tables.few(whole.journal))
            return once(cluster.url, whole.journal, disturbed, "--bytes-per-batch", most)

        while sum(killed.values()) < rounds:
            folders += 1
            disturbed = home / f"disturbed-{folders}"
            child = started()
            try:
                batch = 0
                while sum(killed.values()) < rounds and begun(child, disturbed, batch, tables.PATIENCE):
                    if child.exited(chance.uniform(0, MOMENT)):
                        break
                    victim = next(turns)
                    mid += tables.torn(disturbed)
                    strike(cluster, child, victim, chance)
                    killed[victim] += 1
                    done = tables.batches(disturbed)
                    print(
                        f"  {time.monotonic() - began:6.1f} s  {victim} killed, {done} batches done",
                        flush=True,
                    )
                    batch = done + 1
                    if victim == "driver":
                        child, batch = started(), done
                assert tables.through(child, tables.PATIENCE), f"it does not end:\n{child.last_words}"
            finally:
                end(child)
            broken += tables.compared(whole.tables, disturbed, list(TABLES))
    told = ", ".join(
        f"{number} of a{'n' if name[0] in 'aeiou' else ''} {name}" for name, number in killed.items()
    )
    return whole.verdict(f"cluster: {told}; {mid} of them in the middle of a batch", folders, broken)
