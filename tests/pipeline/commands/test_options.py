"""Options that the commands share, and the settings that they make."""

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from stomprelay.pipeline import options
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch


def parsed(*given: str) -> argparse.Namespace:
    """All options, with what must be given."""
    parser = argparse.ArgumentParser()
    options.add_settings(parser)
    options.add_format(parser)
    options.add_spark(parser)
    return parser.parse_args(["--journal", "j", "--tables", "t", *given])


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (
            options.duration,
            {"90": 90, "90s": 90, "1.5m": 90, "2h": 7200, "30d": 2592000, "4w": 2419200, "0": 0},
        ),
        (options.size, {"4096": 4096, "64k": 1 << 16, "128M": 1 << 27, " 1g ": 1 << 30, "0": 0}),
    ],
)
def test_amounts_have_units(read: Callable[[str], float], values: dict[str, float]) -> None:
    """Seconds and bytes without one; sizes have those of Spark."""
    assert {text: read(text) for text in values} == values


@pytest.mark.parametrize(
    ("read", "example", "wrong"),
    [
        (options.duration, "12h", ["", "h", "-1", "1y", "1h30m", "nan"]),
        (options.size, "128m", ["", "m", "-1", "1.5g", "1t", "12 m"]),
        (options.setting, "K=V", ["a", "=b"]),
    ],
)
def test_what_is_none_is_told(read: Callable[[str], object], example: str, wrong: list[str]) -> None:
    """With an example."""
    for text in wrong:
        with pytest.raises(argparse.ArgumentTypeError, match=example):
            read(text)


def test_a_setting_of_sparks_may_hold_equal_signs() -> None:
    """As options to Java do."""
    assert options.setting("a.b=-Dx=y") == ("a.b", "-Dx=y")


def test_what_is_not_said_is_as_in_the_settings() -> None:
    """One place for defaults."""
    assert options.settings(parsed()) == Settings("j", "t")


def test_each_setting_has_its_option() -> None:
    """All but the interval, which only `run` has."""
    given = (
        "--checkpoint c --format orc --bytes-per-batch 3m --patience 5m --linger 1s --give-up 2h "
        "--stuck-after 3m --id-header correlation-id --id-header x --retain 7d --keep-headers kind,app-id,kind"
    )
    times, headers = (300, 1, 7200, 180), ("correlation-id", "x")
    wanted = Settings("j", "t", "c", "orc", 3 << 20, *times, headers, 10, 604800, ("app-id", "kind"))
    assert options.settings(parsed(*given.split())) == wanted


def test_spark_is_started_as_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's settings go before those of a command."""
    seen: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(launch, "session", lambda name, **how: seen.append((name, how)))
    given = parsed("--master", "local[3]", "--conf", "a=1", "--conf", "b=2", "--spark-log", "warn")
    options.session(given, "once", brief=True, conf={"a": "0", "c": "3"})
    told = {"master": "local[3]", "conf": {"a": "1", "b": "2", "c": "3"}, "log": "warn", "say": None}
    assert seen == [("stomprelay-pipeline once", {**told, "brief": True, "quick": False})]


def test_the_checkpoint_lies_beside_the_tables() -> None:
    """Unless it is named."""
    assert Settings("j", "t/").checkpoint == "t/_checkpoint"
    assert Settings("j", "s3a://b/t").checkpoint == "s3a://b/t/_checkpoint"
    assert Settings("j", "t", checkpoint="c").checkpoint == "c"


WRONG: dict[str, list[Any]] = {
    **{name: [""] for name in ("journal", "tables", "format")},
    **{name: [-1, float("nan")] for name in ("patience", "linger", "give_up", "stuck_after", "interval")},
    "bytes_per_batch": [0],
    "retain": [0],
    "keep_headers": [("a:b",), ("",), ("Authorization",), tuple(map(str, range(17)))],
}


@pytest.mark.parametrize(("name", "wrong"), [(name, each) for name, many in WRONG.items() for each in many])
def test_what_cannot_be_is_named(name: str, wrong: Any) -> None:
    """In a sentence for the user."""
    with pytest.raises(ValueError, match=name):
        Settings(**{"journal": "j", "tables": "t", name: wrong})


def test_files_of_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """They want Hadoop's own view of this machine's; the user's `--conf` wins."""
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(launch, "session", lambda name, **given: asked.append(given["conf"]))
    key = "spark.hadoop.fs.file.impl"
    for given in ((), ("--checkpoint", "s3a://b/c"), ("--checkpoint", "s3a://b/c", "--conf", f"{key}=own")):
        options.session(parsed(*given), "once")
    assert [conf.get(key) for conf in asked] == [None, launch.CHECKED[key], "own"]
