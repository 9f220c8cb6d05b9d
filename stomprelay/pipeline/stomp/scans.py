"""The rows that a batch read has received, recorded beside its spool, so that all scans of a DataFrame have the same
rows.

Spark plans a DataFrame anew for each action, and twice for a join with itself. Each time Spark asks for partitions, in
a process that then ends. The first scan receives messages, and records which rows they are. Every later scan finds that
record and connects to no broker. In the folder `scans` of the spool are

    lock          held by the scan that looks, receives or records
    <identity>    of a DataFrame: a `RowRange`

A scan that fails records a range without an end. The next scan has the same begin, because the messages that the failed
scan received are in the spool and acknowledged.
"""

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.journal.disk import replace
from stomprelay.pipeline.stomp.receivers import Offset, SourceError
from stomprelay.pipeline.stomp.spool import SpoolError

FOLDER: Final = "scans"
LOCK: Final = "lock"


class ScanIdentity(NamedTuple):
    """The identity of a DataFrame, pickled with the data source. `made`: when it was made, in seconds since 1970."""

    name: str
    made: float

    @classmethod
    def new(cls) -> "ScanIdentity":
        """Return a new identity."""
        return cls(uuid.uuid4().hex, time.time())

    @classmethod
    def named(cls, name: str) -> "ScanIdentity":
        """Return the identity of all DataFrames with this name, which the user chose."""
        return cls(f"named-{sha256(name.encode()).hexdigest()}", time.time())


class RowRange(NamedTuple):
    """The rows of a DataFrame. `end`: None until all rows are received. `until`: the time, in seconds since 1970, until
    which the rows are kept; None: for ever.
    """

    start: Offset
    end: Offset | None
    until: float | None


class Scans:
    """The scans of one DataFrame. Its spool keeps rows for `retain` seconds; 0 means for ever. Enter `alone` and call
    `found`. If `found` returns None or rows without an end, call `note` with the begin, receive messages, and call
    `note` with the end. Every method raises `SpoolError`.
    """

    def __init__(self, spool: Path, identity: ScanIdentity, retain: float) -> None:
        self._folder = spool / FOLDER
        self._path = self._folder / identity.name
        self._retain = retain
        self._until = identity.made + retain if retain else None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other scan uses this spool. Other scans must wait while the context is entered."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise _unusable(self._folder, error) from None
        with file:
            yield

    def found(self) -> RowRange | None:
        """Return the range of an earlier scan, or None. Raises `SourceError` if its rows are no longer kept."""
        found = _read(self._path)
        until = self._until if found is None else found.until
        if until is not None and time.time() > until:
            raise SourceError(
                f"this DataFrame was loaded more than {self._retain:g} s ago, and its rows are no longer kept: load it"
                " anew, or let the option retain be longer"
            )
        return found

    def note(self, start: Offset, end: Offset | None) -> RowRange:
        """Store the range on disk and return it. `end` is None while messages are still received. Records of other
        DataFrames are removed if their rows are no longer kept.
        """
        noted = RowRange(start, end, self._until)
        try:
            replace(self._path, json.dumps(noted._asdict()))
            for path in self._folder.iterdir():
                if path.name != LOCK and not path.name.startswith("."):
                    other = _read(path)
                    if other is not None and other.until is not None and time.time() > other.until:
                        path.unlink()
        except OSError as error:
            raise _unusable(self._path, error) from None
        return noted


def _read(path: Path) -> RowRange | None:
    try:
        return RowRange(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: Exception) -> SpoolError:
    return SpoolError(f"spool {path}: {getattr(error, 'strerror', None) or error}")
