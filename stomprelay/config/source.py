"""Where a relay's configuration is from: a file, and the command line over it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

from stomprelay import config
from stomprelay.config import Config, ConfigError


class Source(NamedTuple):
    """Where a configuration is from, so that another process reads the same, whatever becomes of the file: its path and
    its text, if there is one, and the options over it. Relative paths start in `folder`, where a process must be to
    read it, and to use what it names: see `here`.
    """

    path: str | None
    text: str
    options: Mapping[str, Any]
    folder: str

    @classmethod
    def of(cls, path: str | None, options: Mapping[str, Any]) -> Self:
        """Return the source of a command line, with the file as it is now. Raises `ConfigError`."""
        return cls(path, "" if path is None else config.read_text(path), options, os.getcwd())

    @contextmanager
    def here(self) -> Iterator[None]:
        """Be in its folder meanwhile, wherever the process runs. Raises `ConfigError` where that is gone."""
        before: str | None = None
        with suppress(OSError):  # where it runs may be removed
            before = os.getcwd()
        if before == self.folder:
            yield
            return
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise ConfigError(f"{self.folder}: cannot be entered: {error.strerror}") from None
        try:
            yield
        finally:
            if before is not None:
                os.chdir(before)

    def read(self) -> Config:
        """Return the configuration. Raises `ConfigError`."""
        if self.path is None:
            return config.default(**self.options)
        return config.overridden(config.load(self.path, self.text), **self.options, source=self.path)

    def again(self) -> Self:
        """Return the source with the file as it is now. Raises `ConfigError`."""
        if self.path is None:
            return self
        with self.here():
            return self._replace(text=config.read_text(self.path))
