"""A journal that is read while it is written."""

from pathlib import Path

import pytest

from stomprelay.journal import follow
from stomprelay.journal.follow import Follower
from stomprelay.journal.schema import Context
from tests.journal import made


def event(number: int) -> bytes:
    """A block with an event."""
    return made.event(str(number), "", Context(), number)


def test_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a block is half written, larger than what is read at a time, or in a segment that ends meanwhile."""
    monkeypatch.setattr(follow, "_PORTION", 16)
    name = "20261121T080000-r-0000000a-000001"
    path = tmp_path / f"{name}.journal.open"
    follower = Follower(tmp_path, 0)

    def read() -> list[str]:
        return [each.event.event for each in follower.records(lambda *_: True) if each.event is not None]

    last = event(3)
    path.write_bytes(made.header())
    assert read() == []
    with path.open("ab") as file:
        file.write(event(1) + event(2) + last[:-1])
    assert read() == ["1", "2"]
    assert read() == []
    with path.open("ab") as file:
        file.write(last[-1:])
    path.rename(path.with_suffix(""))
    (tmp_path / f"{name[:-1]}2.journal.open").write_bytes(made.header() + event(4))
    assert read() == ["3", "4"]
    assert follower.damages == 0
