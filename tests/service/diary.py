"""A relay that keeps a journal, of which a test reads what would be written."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest.mock import patch

from twisted.internet.testing import MemoryReactorClock

from stomprelay.journal.block import Block, Kind, decode
from stomprelay.journal.schema import Context, Header, JournalEvent
from stomprelay.journal.settings import Settings
from stomprelay.relay.model.listener import Listener
from stomprelay.service.journal import Journal
from stomprelay.service.scribe import Scribe
from tests.service.house import House

HEADER = Header(1, "here", "00000000", 1, 0, 60.0, "tests")
"""Tells how contexts are written."""


class Told(NamedTuple):
    """A block, read: frames (their heads and what is kept of their bodies) or an event with its facts."""

    context: Context
    number: int
    frames: tuple[bytes, ...] = ()
    event: str = ""
    text: str = ""
    facts: Any = None


def told(block: Block) -> Told:
    """What a block says."""
    context = HEADER.contexts(block.context)
    if block.kind is Kind.FRAMES:
        return Told(context, block.number, tuple(each.head + each.kept for each in block.frames))
    happening = json.loads(block.payload)
    return Told(context, block.number, (), happening["event"], happening["text"], happening["facts"])


class Threaded(MemoryReactorClock):
    """A reactor in memory that other threads may call; they are heard when the test lets it `turn`."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: deque[Callable[[], object]] = deque()

    def callFromThread(self, callable: Callable[..., object], *args: Any, **named: Any) -> None:
        """From any thread."""
        self._calls.append(lambda: callable(*args, **named))

    def turn(self) -> None:
        """Do what other threads asked for."""
        while self._calls:
            self._calls.popleft()()


class Diary(House):
    """A house with a journal that nobody writes: `read` has what waits to be written."""

    reactors: ClassVar[type[MemoryReactorClock]] = Threaded
    reactor: Threaded

    def __init__(self, directory: Path, *listeners: Listener, **settings: Any) -> None:
        with patch.object(Scribe, "start"):
            super().__init__(*listeners, journal=Settings(str(directory), **settings))

    @property
    def journal(self) -> Journal:
        """It is there."""
        journal = self.service.journal
        assert journal is not None
        return journal

    def read(self) -> list[Told]:
        """What was recorded since the last look, that the journal began apart."""
        return [each for each in self._waiting() if each.event != JournalEvent.BEGUN.value]

    def _waiting(self) -> Iterator[Told]:
        spool = self.journal._spool
        while batch := spool.take(1 << 30):
            spool.done()
            for block in decode(batch.data):
                assert isinstance(block, Block)
                yield told(block)
