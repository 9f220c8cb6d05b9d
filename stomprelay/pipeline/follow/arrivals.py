"""New segments: the files that Spark's file source found, in the order of the journal.

The source orders files by the time of their last change, but a copied file has a new time. So one batch of Spark
contains all new segments, and the pipeline reads this batch in parts, in the order of the segments' names. The parts
are saved in the folder of Spark's checkpoint before the first part is read. So an interrupted run continues with the
same parts.
"""

import json
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from stomprelay.journal.segment import parse_name
from stomprelay.pipeline.read.frames import SegmentToRead
from stomprelay.pipeline.store.volume import Volume

_HEAD: Final = "v1"
_DONE: Final = "done-"


class Part(NamedTuple):
    """The segments that one batch of the pipeline reads. `number` counts the parts over all runs. `last`: this is the
    last part of Spark's batch. `unread`: when the first segment of the next part was begun (ns since 1970), None if
    there is no next part.
    """

    number: int
    paths: tuple[str, ...]
    last: bool
    unread: int | None = None


class Arrivals:
    """The segments in the log of Spark's checkpoint, in parts of at most `most` bytes. Methods raise `OSError`."""

    def __init__(self, volume: Volume, checkpoint: str, most: int) -> None:
        self._volume = volume
        self._checkpoint = checkpoint
        self._parts = posixpath.join(checkpoint, "parts")
        self._most = most
        self._finished: int | None = None

    def parts(self, batch: int) -> Iterator[Part]:
        """Yield the parts of Spark's batch that are not done. The caller must call `done` for each part."""
        first, groups, _ = self._planned(batch)
        done = self.finished
        for number, paths in enumerate(groups, first):
            if number > done:
                unread = [begun(group[0]) for group in groups[number - first + 1 :][:1]]
                yield Part(number, tuple(paths), not unread, unread[0] if unread else None)

    def waiting(self, batch: int) -> int:
        """Return the bytes of the segments in parts that are not done; 0 if the sizes are not known."""
        first, _, sizes = self._planned(batch)
        return sum(size for number, size in enumerate(sizes, first) if number > self.finished)

    def arrivals(self, part: Part) -> list[SegmentToRead]:
        """Return the segments of a part, with their sizes in bytes."""
        return [SegmentToRead(path, self._volume.size(path)) for path in part.paths]

    def done(self, part: Part) -> None:
        """Record that all rows of a part are in the tables."""
        before = self.finished
        self._volume.put(self._mark(part.number), "")
        self._finished = part.number
        if before >= 0:
            self._volume.remove(self._mark(before))

    @property
    def finished(self) -> int:
        """Return the number of the last part that is done; -1 before the first."""
        if self._finished is None:
            marks = self._volume.find(self._parts, f"{_DONE}*")
            numbers = sorted(int(mark.rpartition(_DONE)[2]) for mark in marks)
            for number in numbers[:-1]:  # left by a run that was killed between the two steps of `done`
                self._volume.remove(self._mark(number))
            self._finished = numbers[-1] if numbers else -1
        return self._finished

    def _mark(self, number: int) -> str:
        return posixpath.join(self._parts, f"{_DONE}{number}")

    def _planned(self, batch: int) -> tuple[int, list[list[str]], list[int]]:
        """Return the number of the first part of Spark's batch, the paths of each part, and the bytes of each part."""
        plan = posixpath.join(self._parts, str(batch))
        known = self._volume.text(plan)
        if known is None:
            groups: list[list[str]] = []
            sizes: list[int] = []
            for path in ordered(self._logged(batch)):  # a segment that is larger than a part stands alone
                more = self._volume.size(path)
                if not groups or sizes[-1] + more > self._most:
                    groups.append([])
                    sizes.append(0)
                groups[-1].append(path)
                sizes[-1] += more
            known = json.dumps({"first": self.finished + 1, "parts": groups, "sizes": sizes})
            self._volume.put(plan, known)
            if batch > 0:
                self._volume.remove(posixpath.join(self._parts, str(batch - 1)))
        told = json.loads(known)
        return int(told["first"]), list(told["parts"]), list(told.get("sizes", ()))

    def _logged(self, batch: int) -> list[str]:
        """Return the paths of a batch that the source logged, including files that are gone."""
        end = self._offset(batch)
        begin = self._offset(batch - 1) if batch > 0 else -1
        log = posixpath.join(self._checkpoint, "sources", "0")
        found: list[str] = []
        for entry in range(begin + 1, end + 1):
            path = posixpath.join(log, str(entry))
            whole = self._volume.text(path)
            found += logged(whole if whole is not None else self._volume.text(f"{path}.compact") or "", entry)
        return found

    def _offset(self, batch: int) -> int:
        told = self._volume.text(posixpath.join(self._checkpoint, "offsets", str(batch)))
        if told is None:
            raise FileNotFoundError(f"{self._checkpoint}/offsets/{batch} is missing")
        return int(json.loads(told.splitlines()[-1])["logOffset"])


def logged(text: str, entry: int) -> list[str]:
    """Return the paths of the segments that came with this entry of the source's log. `text` is the log's file, which
    may have other entries, too. Raises `ValueError` for an unknown version of the log.
    """
    head, *lines = text.splitlines() or [""]
    if head != _HEAD:
        raise ValueError(f"the log of Spark's file source is of a version that is not known here: {head!r}")
    # A compacted text has a line for every file that ever came; few of these lines contain the entry's number.
    found = [json.loads(line) for line in lines if str(entry) in line]
    return [_plain(each["path"]) for each in found if each["batchId"] == entry]


def _plain(uri: str) -> str:
    """Return the path of a file on this machine. Return any other URI unquoted, as Hadoop's Path needs it."""
    scheme, _, rest = unquote(uri).partition(":")
    return "/" + rest.lstrip("/") if scheme == "file" else unquote(uri)


def begun(path: str) -> int | None:
    """Return the begin time in a segment's name, in ns since 1970; None for a file of another name."""
    read = parse_name(posixpath.basename(path))
    return None if read is None else read[0].created


def ordered(paths: Sequence[str]) -> list[str]:
    """Return the segments, each only once, sorted by begin time and number. Files with other names are last."""

    def place(path: str) -> tuple[bool, int, str, str, int, str]:
        read = parse_name(posixpath.basename(path))
        if read is None:
            return True, 0, "", "", 0, path
        return False, read[0].created, read[0].relay, read[0].run, read[0].number, path

    return sorted(set(paths), key=place)
