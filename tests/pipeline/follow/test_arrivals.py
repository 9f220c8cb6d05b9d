"""Which segments came, by the log of Spark's file source."""

import json
import posixpath

import pytest

from stomprelay.pipeline.follow.arrivals import Arrivals, Part, logged, ordered
from stomprelay.pipeline.read.frames import SegmentToRead
from tests.pipeline.journal_files import START, name

JOURNAL = "file:///j"


class Files:
    """A volume in memory."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def text(self, path: str) -> str | None:
        return self.files.get(path)

    def put(self, path: str, text: str) -> None:
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = text

    def find(self, root: str, pattern: str) -> list[str]:
        start = posixpath.join(root, pattern.removesuffix("*"))
        return sorted(path for path in self.files if path.startswith(start))

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def size(self, path: str) -> int:
        return self.sizes.get(path, len(path))

    def came(self, batch: int, *paths: str) -> None:
        """As Spark writes it down: every tenth entry holds all before it, too."""
        self.files[f"c/offsets/{batch}"] = f'v1\n{{"conf": {{}}}}\n{{"logOffset":{batch}}}'
        lines = [json.dumps({"path": path, "timestamp": 1, "batchId": batch}) for path in paths]
        entry = f"c/sources/0/{batch}"
        if batch % 10 == 9:
            entry += ".compact"
            lines += [json.dumps({"path": "file:///j/old.journal", "timestamp": 1, "batchId": 0})]
        self.files[entry] = "\n".join(["v1", *lines])


def arrivals(files: Files, most: int = 2) -> Arrivals:
    """With this many segments of usual names in a part: sizes are those of the names here."""
    return Arrivals(files, "c", most * len(f"/j/{name(1)}"))  # type: ignore[arg-type]


def test_a_batch_of_sparks_is_cut_into_parts_by_name() -> None:
    """Whatever the order in which the files were touched."""
    files = Files()
    files.came(0, *(f"{JOURNAL}/{name(number)}" for number in (3, 1, 5, 2, 4)))
    parts = list(arrivals(files).parts(0))
    assert parts == [
        Part(0, (f"/j/{name(1)}", f"/j/{name(2)}"), last=False, unread=START),
        Part(1, (f"/j/{name(3)}", f"/j/{name(4)}"), last=False, unread=START),
        Part(2, (f"/j/{name(5)}",), last=True),
    ]
    assert arrivals(files).arrivals(parts[2]) == [SegmentToRead(f"/j/{name(5)}", len(f"/j/{name(5)}"))]


def test_parts_are_numbered_through_and_done_once() -> None:
    """A run that was cut short goes on with the same parts, even if it is told to take more at a time."""
    files = Files()
    files.came(0, *(f"{JOURNAL}/{name(number)}" for number in (1, 2, 3)))
    first = arrivals(files)
    assert first.finished == -1
    first.done(next(first.parts(0)))
    again = arrivals(files, most=100)
    (rest,) = again.parts(0)
    assert rest == Part(1, (f"/j/{name(3)}",), last=True)
    again.done(rest)
    assert list(again.parts(0)) == []
    files.came(1, f"{JOURNAL}/{name(4)}")
    assert [part.number for part in again.parts(1)] == [2]
    assert again.finished == 1


def test_a_part_ends_before_it_is_too_large() -> None:
    """A segment that is too large itself is alone in its part; one that has vanished weighs nothing."""
    files = Files()
    files.sizes = {f"/j/{name(number)}": size for number, size in enumerate((4, 6, 1, 11, 0, 3, 7), start=1)}
    files.came(0, *files.sizes)
    most = Arrivals(files, "c", 10)  # type: ignore[arg-type]
    found = [[files.sizes[path] for path in part.paths] for part in most.parts(0)]
    assert found == [[4, 6], [1], [11], [0, 3, 7]]


def test_paths_are_as_hadoop_takes_them() -> None:
    """The log has them quoted; a log of a later Spark's version is not guessed at."""
    paths = {"file:///a%20b/c%5B1%5D.journal": "/a b/c[1].journal", "file:/a/b.journal": "/a/b.journal"}
    paths["hdfs://host:8020/a%20b.journal"] = "hdfs://host:8020/a b.journal"
    for uri, path in paths.items():
        assert logged(f'v1\n{{"path":"{uri}","timestamp":1,"batchId":3}}', 3) == [path]
    with pytest.raises(ValueError, match="v2"):
        logged("v2\n{}", 0)


def test_segments_are_read_in_the_order_of_their_runs() -> None:
    """By when they were begun, then by relay, run and number; what is none comes last."""
    late = name(1, stamp="20261121T090000")
    paths = [f"/j/{each}" for each in (name(9, relay="r0"), name(9), name(10), late, "x.journal")]
    assert ordered([*reversed(paths), paths[-1]]) == paths
