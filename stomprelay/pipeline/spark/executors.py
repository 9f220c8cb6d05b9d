"""The executors of a cluster: what they must have, and how they get our code.

They need Python in the driver's version, with PyArrow, and must see each folder under the name that the driver uses.
This is checked once, before the first row is read, so that a user gets a sentence and not a traceback from Spark.
"""

import atexit
import re
import shutil
import socket
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from stomprelay.pipeline.spark.errors import MissingSpark, reason, said
from stomprelay.pipeline.spark.tasks import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FITTED: Final = "spark.stomprelay.partitions"
"""The setting in which `fit` keeps the number of partitions that it chose last."""
_PATIENCE: Final = "spark.network.timeout", "120s"
"""Spark's setting for how long to wait for executors, and its default."""
_EACH: Final = 2
"""Partitions of a shuffle for each core. More than one is needed, because sessions have different sizes."""
_OTHER_PYTHON: Final = re.compile(r"different version: (\S+) than that in driver: ([^\s,]+)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE: Final = re.compile(r"No module named '([^']+)'")


class _Found(NamedTuple):
    """What one executor has: `code` is the digest of its stomprelay, `unseen` are paths that it does not see."""

    host: str
    pyarrow: str | None
    code: str | None
    unseen: list[str]


def knock(master: str) -> None:
    """Raise `MissingSpark` if `master` is a standalone cluster and does not answer."""
    if not master.startswith("spark://"):
        return
    why = ""
    for place in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"//{place}")
        try:
            with socket.create_connection((parts.hostname, parts.port or 7077), timeout=10):
                return
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
    raise MissingSpark(f"no Spark master answers at {master}: {why}")


def equip(spark: "SparkSession") -> None:
    """Make sure that all executors run our code while the session lives. If the code of an executor differs, the
    driver's code is sent to all. Then call `fit`. Raises `MissingSpark` if executors cannot run the code, or if no
    executor answers in time.
    """
    probe = _probe()
    found = _asked(spark, probe, [])
    without = sorted({each.host for each in found if each.pyarrow is None})
    if without:
        raise MissingSpark(
            f"Python on {', '.join(without)} has no pyarrow: install it on all machines of the cluster, or name "
            "another Python by --conf spark.pyspark.python=PATH"
        )
    (ours,) = probe([])([0])
    if any(each.code != ours[2] for each in found):
        _ship(spark, ours[2])
    fit(spark)


def fit(spark: "SparkSession") -> None:
    """Let shuffles have two partitions for each core, unless the user chose a number of partitions."""
    context = spark.sparkContext
    chosen = context.getConf().contains(PARTITIONS)
    if not chosen and spark.conf.get(PARTITIONS) in {"200", spark.conf.get(_FITTED, "")}:  # by default 200
        fitting = str(_EACH * context.defaultParallelism)
        spark.conf.set(PARTITIONS, fitting)
        spark.conf.set(_FITTED, fitting)


def see(spark: "SparkSession", read: Iterable[Path], written: Iterable[Path]) -> None:
    """Raise `MissingSpark` if an executor does not see these folders of the driver's machine. As a test, a file is put
    into the folders in `written` and removed again. Raises `OSError` if that fails.
    """
    with _marked(written) as marks:
        wanted = [str(path) for path in (*(next(each.iterdir(), each / ".") for each in read), *marks)]
        if not wanted:
            return
        for each in _asked(spark, _probe(), wanted):
            if each.unseen:
                raise MissingSpark(
                    f"{each.host}, where tasks run, does not see {Path(each.unseen[0]).parent} as it is here: journal, "
                    "tables and checkpoint must be in folders that all machines share, or on hdfs://, s3a:// or the "
                    "like"
                )


@contextmanager
def _marked(folders: Iterable[Path]) -> Iterator[list[Path]]:
    marks = []
    try:
        for folder in sorted(set(folders)):
            folder.mkdir(parents=True, exist_ok=True)
            mark = folder / f"_seen-{uuid4().hex}"
            mark.touch()
            marks.append(mark)
        yield marks
    finally:
        for mark in marks:
            with suppress(OSError):
                mark.unlink()


Probe = Callable[[Sequence[str]], Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]]


def _probe() -> Probe:
    """Return the function that executors run. Spark sends its code, because executors may not have our package."""

    def asked(paths):  # type: ignore[no-untyped-def]  # its types would be looked for there
        def found(numbers):  # type: ignore[no-untyped-def]
            import hashlib
            import os
            import re
            import socket
            import sys

            try:
                import pyarrow

                arrow = pyarrow.__version__
            except ImportError:
                arrow = None
            code = None
            for place in sys.path:
                sent = re.fullmatch("stomprelay-([0-9a-f]{64}).zip", os.path.basename(place))
                if sent:
                    code = sent[1]
                    break
                home = os.path.join(place, "stomprelay")
                if os.path.isfile(os.path.join(home, "__init__.py")):
                    digest = hashlib.sha256()
                    for folder, inner, names in os.walk(home):
                        inner.sort()
                        for name in sorted(names):
                            if name.endswith(".py"):
                                path = os.path.join(folder, name)
                                digest.update(os.path.relpath(path, home).encode())
                                with open(path, "rb") as source:
                                    digest.update(source.read())
                    code = digest.hexdigest()
                    break
            for _ in numbers:
                unseen = [path for path in paths if not os.path.exists(path)]
                yield socket.gethostname(), arrow, code, unseen

        return found

    return asked


def _asked(spark: "SparkSession", probe: Probe, paths: Sequence[str]) -> list[_Found]:
    """Run `probe` on the executors, and return its results. Raises `MissingSpark` if no executor answers in time."""
    context = spark.sparkContext
    tag = f"stomprelay-{uuid4().hex}"
    patience = int(context._jsc.sc().conf().getTimeAsSeconds(*_PATIENCE))
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelJobsWithTag(tag)

    timer = threading.Timer(patience, give_up)
    timer.daemon = True
    context.addJobTag(tag)
    timer.start()
    try:
        for _ in range(2):  # one executor may do the first round alone, while others start
            tasks = _EACH * context.defaultParallelism
            rows = context.parallelize(range(tasks), tasks).mapPartitions(probe(paths)).collect()
    except Exception as error:
        if late.is_set():
            raise MissingSpark(
                f"no executor of {context.master} took work within {patience} s: is there a worker that has the "
                "memory and the cores which spark.executor.memory and spark.executor.cores ask for?"
            ) from None
        raise MissingSpark(_why("\n".join(said(error))) or reason(error)) from None
    finally:
        timer.cancel()
        with suppress(Exception):  # the session may be over
            context.removeJobTag(tag)
    return [_Found(*row) for row in rows]


def _why(told: str) -> str | None:
    """Return a sentence if a task failed before any of our code ran; None for another failure."""
    if other := _OTHER_PYTHON.search(told):
        return (
            f"Python on the executors is {other[1]} and {other[2]} here: both must be of one version. Name another by "
            "--conf spark.pyspark.python=PATH"
        )
    if program := _NO_PROGRAM.search(told):
        return f"there is no {program[1]} on the executors: name their Python by --conf spark.pyspark.python=PATH"
    if module := _NO_MODULE.search(told):
        return f"Python on the executors has no {module[1]}"
    return None


def _ship(spark: "SparkSession", digest: str) -> None:
    """Send our Python code in an archive named by its `digest`. Executors that come later get the archive, too."""
    import stomprelay

    package = Path(stomprelay.__file__).parent
    place = Path(tempfile.mkdtemp(prefix="stomprelay-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    packed = place / f"stomprelay-{digest}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and path.suffix not in {".pyc", ".so", ".pyd", ".c", ".pyx"}:
                archive.write(path, path.relative_to(package.parent))
    spark.sparkContext.addPyFile(str(packed))
