"""Two runs are kept apart, where the tables are on a disk that knows locks."""

import fcntl
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Final

from stomprelay.pipeline.store.store import StoreError

_NAME: Final = "_lock"


class Lock(AbstractContextManager["Lock"]):
    """Keeps other runs away in its context; `folder` is None on another machine. Raises `StoreError` on entering."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Lock":
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = (self._folder / _NAME).open("ab")
            except OSError as error:
                raise StoreError(
                    f"the tables in {self._folder} cannot be written: {error.strerror}"
                ) from None
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise StoreError(f"another run is at work on the tables in {self._folder}") from None
            except OSError:
                pass  # a file system without locks
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
