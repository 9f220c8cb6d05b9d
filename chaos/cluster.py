"""The pipeline, on this machine alone or on a cluster of its own, killed again and again.

`stomprelay-pipeline once` makes the tables of a journal, undisturbed. Then the same is done in another folder, where
one of these gets SIGKILL at a batch, or while it starts: the driver with its Java and all its Python, and it is started
again; an executor of the cluster with its Python, and its worker starts another; a worker with all that it runs, and
another one joins. Row for row the tables must be the same.
"""

import random
import time
from contextlib import ExitStack
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


def begun(child: Child, folder: Path, batch: int) -> bool:
    """Wait until batches before this one are done and one is at work: its frames are being written, or are there.
    Return False where the run ends before.
    """
    until = time.monotonic() + tables.PATIENCE
    while time.monotonic() < until:
        if tables.batches(folder) >= batch and tables.torn(folder):
            return True
        if child.exited(_LOOK):
            return False
    raise AssertionError(f"no batch begins:\n{child.last_words}")


def strike(cluster: Standalone, victim: str, chance: random.Random) -> None:
    """Kill an executor or a worker, as they are now."""
    if victim == "executor":
        if there := cluster.executors():
            kill(chance.choice(there))
    else:
        worker = chance.choice(cluster.workers)
        kill(worker.pid)
        worker.stop()
        cluster.workers.remove(worker)
        cluster.join()


def alone(home: Path, rounds: int, seed: int, records: int = 6000) -> Verdict:
    """So many kills of the pipeline on this machine. `home` is an empty folder."""
    return run(home, rounds, seed, records, ("driver",))


def run(
    home: Path, rounds: int, seed: int, records: int = 3000, victims: tuple[str, ...] = VICTIMS
) -> Verdict:
    """So many kills. Others than the driver need a cluster. `home` is an empty folder."""
    chance = random.Random(seed)
    whole = tables.Undisturbed(home, records, seed)
    killed = dict.fromkeys(victims, 0)
    turns = cycle(victims)
    broken: list[str] = []
    folders = mid = 0
    began = time.monotonic()
    with ExitStack() as stack:
        cluster = None
        if victims != ("driver",):
            (home / "cluster").mkdir()
            cluster = stack.enter_context(standalone(home / "cluster"))

        def started() -> Child:
            if cluster is None:
                return tables.once(whole.journal, disturbed)
            most = str(tables.few(whole.journal))
            return once(cluster.url, whole.journal, disturbed, "--bytes-per-batch", most)

        while sum(killed.values()) < rounds:
            folders += 1
            disturbed = home / f"disturbed-{folders}"
            child, batch = started(), 0
            try:
                while sum(killed.values()) < rounds:
                    victim = next(turns)
                    early = victim == "driver" and chance.random() < 0.2
                    if not early and not begun(child, disturbed, batch):
                        break
                    if child.exited(chance.uniform(0, MOMENT)):
                        break
                    mid += tables.torn(disturbed)
                    if victim == "driver" or cluster is None:
                        end(child)
                    else:
                        strike(cluster, victim, chance)
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
    told = ", ".join(f"{name} {number} times" for name, number in killed.items())
    return whole.verdict(f"killed: {told}; {mid} of them in the middle of a batch", folders, broken)
