"""Delta Lake's jars, and the settings of a session that has it."""

from configparser import ConfigParser
from pathlib import Path

import pyspark
import pytest

from stomprelay.pipeline.spark import delta, java

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has none of the jars yet. Return where ours are kept."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(java.CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(delta, "spark_jars", lambda: tmp_path)
    return tmp_path / "cache" / f"delta-{delta.VERSION}"


def put(*paths: Path) -> list[Path]:
    """Files that stand for jars."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return list(paths)


def test_pyspark_is_one_that_delta_has_a_build_for() -> None:
    """What setup.cfg asks for, and what is installed, is of the Spark that the jars are for."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    (asked,) = (
        line.removeprefix("pyspark").replace(" ", "")
        for line in config["options.extras_require"]["pipeline"].splitlines()
        if line.startswith("pyspark")
    )
    major, minor = delta.SPARK.split(".")
    assert asked.startswith(f">={delta.SPARK}.")
    assert asked.endswith(f",<{major}.{int(minor) + 1}")
    assert pyspark.__version__.startswith(f"{delta.SPARK}.")
    assert f"_{delta.SPARK}_" in delta.ARTIFACTS[0]


def test_jars_are_used_where_they_are(alone: Path, tmp_path: Path) -> None:
    """In our cache, else where `mvn dependency:get` puts them; all of them or none."""
    assert delta.found() is None
    names = [f"{name}-{delta.VERSION}.jar" for name in delta.ARTIFACTS]
    maven = tmp_path / ".m2" / "repository" / "io" / "delta"
    places = [maven / name / delta.VERSION / jar for name, jar in zip(delta.ARTIFACTS, names, strict=True)]
    put(places[0])
    assert delta.found() is None
    assert put(*places) == delta.found()
    ours = put(*(alone / name for name in names))
    assert delta.found() == ours
    chosen = delta.settings({"spark.jars": "x.jar", "spark.sql.extensions": "a.B", "c": "d"})
    assert chosen["spark.jars"] == ",".join([*map(str, ours), "x.jar"])
    assert chosen["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension,a.B"
    assert chosen["c"] == "d"


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
def test_jars_that_the_user_names_are_left_to_spark(alone: Path, name: str) -> None:
    """Nothing is fetched."""
    given = {name: f"io.delta:delta-spark_4.2_2.13:{delta.VERSION}"}
    assert delta.settings(given) == {**delta.SETTINGS, **given}


@pytest.mark.spark
def test_where_maven_is_not_reached_it_is_a_sentence(alone: Path, tmp_path: Path) -> None:
    """With what helps: the command for a machine that reaches it, the folder to put them into, and the other format."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers>'
        f'<ibiblio name="none" m2compatible="true" root="{(tmp_path / "nowhere").as_uri()}/"/>'
        "</resolvers></ivysettings>",
        encoding="utf-8",
    )
    said: list[str] = []
    with pytest.raises(delta.MissingJars) as told:
        delta.settings({"spark.jars.ivySettings": str(settings)}, said.append)
    assert said == [f"fetching Delta Lake {delta.VERSION}; this is done once"]
    text = str(told.value)
    assert "\n" not in text
    for helps in ("Maven Central was not reached", delta.MAVEN, str(alone), "--format parquet"):
        assert helps in text
    assert [each.name for each in (tmp_path / "cache").iterdir()] == []
