"""What a batch read has received, kept beside its spool, so that every scan of one DataFrame has the same rows.

Spark plans a DataFrame anew for each action, and twice for a join with itself; each time it asks for partitions, in a
process that lives no longer than that. The first scan receives, and notes which rows these are. Every later one finds
that and connects to nothing. In the folder `scans` of the spool are

    lock          held by the scan that looks, receives or notes
    <identity>    of a DataFrame: the offset its rows begin at, the one they end at, and until when they are kept

A scan that failed notes no end. The next one goes on from where it began: what it had received is in the spool, and
acknowledged.
"""

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.pipeline.stomp.progress import replace
from stomprelay.pipeline.stomp.receivers import Offset, SourceError
from stomprelay.pipeline.stomp.spool import SpoolError

FOLDER: Final = "scans"
LOCK: Final = "lock"


class Identity(NamedTuple):
    """Which DataFrame it is, and when it was made, in seconds since 1970. It is pickled with the data source."""

    name: str
    made: float

    @classmethod
    def new(cls) -> "Identity":
        """Return one that no other DataFrame has."""
        return cls(uuid.uuid4().hex, time.time())


class Range(NamedTuple):
    """The rows of a DataFrame; `end` is None until all of them are received."""

    start: Offset
    end: Offset | None


class Scans:
    """The scans of one DataFrame. `spool`: the folder of the spool; `retain`: seconds that it keeps rows, 0 for good.

    All in `alone`: call `found`, and where that returns no range with an end, `note` where the rows begin, receive
    them, and `note` where they end. Every method raises `SpoolError` for what cannot be read or written.
    """

    def __init__(self, spool: Path, identity: Identity, retain: float) -> None:
        self._folder = spool / FOLDER
        self._path = self._folder / identity.name
        self._retain = retain
        self._until = identity.made + retain if retain else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other scan of this spool looks or receives, and keep others waiting."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def found(self) -> Range | None:
        """Return what an earlier scan has noted, None for the first. Raises `SourceError` once the rows are no longer
        kept: to receive again would give others.
        """
        if self._until is not None and time.time() > self._until:
            raise SourceError(
                f"this DataFrame was loaded more than {self._retain:g} s ago, and its rows are no longer kept: load it"
                " anew, or let the option retain be longer"
            )
        try:
            said = json.loads(self._path.read_text(encoding="utf-8"))
            return Range(said["start"], said["end"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            raise self._unusable(error) from None

    def note(self, start: Offset, end: Offset | None) -> None:
        """Store the range of the rows, on disk on return; `end` is None before they are received. Also removes what is
        stored of DataFrames whose rows are no longer kept.
        """
        try:
            replace(self._path, json.dumps({"start": start, "end": end, "until": self._until}))
            for path in self._folder.iterdir():
                if path.name != LOCK and not path.name.startswith(".") and _is_over(path):
                    path.unlink()
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> SpoolError:
        return SpoolError(f"spool {self._path}: {getattr(error, 'strerror', None) or error}")


def _is_over(path: Path) -> bool:
    try:
        until = json.loads(path.read_text(encoding="utf-8"))["until"]
    except (ValueError, KeyError):
        return False
    return until is not None and time.time() > until
