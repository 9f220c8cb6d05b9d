"""The folder of a replay."""

import json
from pathlib import Path
from typing import Any

import pytest

from stomprelay.pipeline.replay.state import BATCH, Frozen, Share, State, StateError
from stomprelay.pipeline.stomp.progress import JobProgress

ASKED: dict[str, Any] = {
    "where": "size > 3",
    "since": None,
    "rename": [["/a", "/b"]],
    "skip_incomplete": False,
}


def frozen(state: State, *counts: int) -> Frozen:
    """Freeze files with so many messages."""
    place = state.place()
    place.mkdir()
    paths = [place / f"part-{number}" for number in range(len(counts))]
    for path in paths:
        path.touch()
    return state.freeze(ASKED, list(zip(paths, counts, strict=True)))


def test_a_selection_is_found_again(tmp_path: Path) -> None:
    """What was asked for and the files are as they were, and nobody else may read them."""
    folder = tmp_path / "a" / "state"
    with State(folder) as state:
        assert state.frozen(ASKED) is None
        made = frozen(state, 3, 4)
    with State(folder) as state:
        found = state.frozen(ASKED)
        assert found == made
        assert found.messages == 7
        assert [(share.number, share.messages) for share in state.shares(found)] == [(0, 3), (1, 4)]
        assert all(share.path.is_file() for share in state.shares(found))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_confirmed_messages_are_counted(tmp_path: Path) -> None:
    """Over all files, as the sink's code notes them."""
    with State(tmp_path) as state:
        made = frozen(state, 3, 4)
        assert state.confirmed(made) == 0
        JobProgress(state.progress).identity(None)
        JobProgress(state.progress).advance(BATCH, 0, 3)
        JobProgress(state.progress).advance(BATCH, 1, 2)
        assert state.confirmed(made) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"where": None},
            r"is of a replay with --where 'size > 3', this one has no --where: say the same again",
        ),
        ({"since": "24h"}, r"is of a replay with no --since, this one has --since '24h'"),
        ({"rename": []}, r"--rename \[\['/a', '/b'\]\], this one has no --rename"),
        ({"skip_incomplete": True}, r"with no --skip-incomplete, this one has --skip-incomplete: "),
    ],
)
def test_another_selection_needs_another_folder(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """The error says what is different."""
    with State(tmp_path) as state:
        frozen(state, 1)
        with pytest.raises(StateError, match=said):
            state.frozen({**ASKED, **change})


def test_one_replay_at_a_time(tmp_path: Path) -> None:
    """A second one would send everything twice."""
    with State(tmp_path), pytest.raises(StateError, match="another replay is at work on it"), State(tmp_path):
        pass
    with State(tmp_path):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    """Somebody may have named the wrong one."""
    (tmp_path / "selection-of-photos").mkdir()
    with pytest.raises(StateError, match="is not empty, and no replay's"), State(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["selection-of-photos"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The error says why."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(StateError, match="cannot be used: Not a directory"),
        State(tmp_path / "file" / "state"),
    ):
        pass


def test_half_a_selection_is_none(tmp_path: Path) -> None:
    """What a killed run left is removed, and a new place is one that the killed run's Java does not know."""
    with State(tmp_path) as state:
        left = state.place()
        left.mkdir()
        (left / "part-0").touch()
    with State(tmp_path) as state:
        assert state.frozen(ASKED) is None
        place = state.place()
        assert place != left
        assert not left.exists()
        assert not place.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"replay\.json cannot be read: "),
        ("[]", r"replay\.json cannot be read: "),
        ('{"version": 1}', r"replay\.json cannot be read: 'asked'"),
        ('{"version": 9}', "is of another version of this software"),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, text: str, said: str) -> None:
    """Nothing is selected anew in its place: some of it may have been sent."""
    with State(tmp_path) as state:
        (tmp_path / "replay.json").write_text(text)
        with pytest.raises(StateError, match=said):
            state.frozen(ASKED)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """What was frozen is not there any more."""
    with State(tmp_path) as state:
        made = frozen(state, 1)
        (tmp_path / made.files[0][0]).unlink()
        with pytest.raises(StateError, match=r"lacks the file selection-\w+/part-0"):
            state.frozen(ASKED)


def test_the_record_is_plain(tmp_path: Path) -> None:
    """People can look into it."""
    with State(tmp_path) as state:
        made = frozen(state, 1)
        said = json.loads((tmp_path / "replay.json").read_text())
        assert said == {"version": 1, "asked": ASKED, "files": [list(each) for each in made.files]}
        assert state.shares(made) == [Share(0, tmp_path / made.files[0][0], 1)]
