"""What can be said to the data source."""

import re
from pathlib import Path

import pytest

from stomprelay.pipeline.stomp import options
from stomprelay.pipeline.stomp.options import SPOOL, Sink, Source
from stomprelay.pipeline.stomp.values import OptionError
from tests.pipeline.stomp.scene import URI, sink, source


def test_a_reader_needs_little(tmp_path: Path) -> None:
    """A place, a destination, a spool; all else has its default."""
    made = source(tmp_path)
    assert made.destinations == ("/queue/a",)
    assert made.spool == tmp_path
    assert (made.late, made.receivers, made.group_size, made.group_age) == (False, 1, 2000, 0.1)
    assert (made.idle, made.drain, made.most, made.earliest, made.strict) == (2.0, None, None, None, True)
    assert made.headers == {b"prefetch-count": b"10000", b"activemq.prefetchSize": b"10000"}


def test_all_that_a_reader_can_be_told(tmp_path: Path) -> None:
    """Each option arrives where it is used, times in seconds."""
    made = source(
        tmp_path,
        destination="/queue/a,/queue/b",
        ack="commit",
        prefetch=7,
        receivers=2,
        groupSize=5,
        groupMs=20,
        backlog=9,
        maxMessagesPerTrigger=3,
        minPartitions=4,
        idleMs=100,
        drainMs=500,
        startingOffsets="latest",
        failOnDataLoss="false",
        includeHeaders="false",
        retain=60,
        selector="a = 1",
        header_durable="true",
    )
    assert made.destinations == ("/queue/a", "/queue/b")
    assert (made.late, made.prefetch, made.receivers) == (True, 7, 2)
    assert (made.group_size, made.group_age, made.backlog, made.most, made.partitions) == (5, 0.02, 9, 3, 4)
    assert (made.idle, made.drain, made.earliest, made.strict) == (0.1, 0.5, False, False)
    assert (made.include_headers, made.retain) == (False, 60)
    assert made.headers == {
        b"prefetch-count": b"7",
        b"activemq.prefetchSize": b"7",
        b"selector": b"a = 1",
        b"durable": b"true",
    }


def test_kafkas_name_for_the_limit_is_known(tmp_path: Path) -> None:
    """A sequence is an offset."""
    assert source(tmp_path, maxOffsetsPerTrigger=8).most == 8


def test_the_spool_has_to_be_known() -> None:
    """Spark does not tell a source where its checkpoint is, and the error says what to do."""
    said = {"uri": URI, "destination": "/queue/a"}
    with pytest.raises(OptionError, match=r"option spool: is missing: a folder.*checkpointLocation to the"):
        Source.read(said)
    made = Source.read(said | {"checkpointLocation": "/tmp/c"})
    assert made.spool == Path("/tmp/c") / SPOOL
    assert Source.read(said | {"spool": "file:///tmp/s"}).spool == Path("/tmp/s")
    with pytest.raises(OptionError, match="option spool: must be a folder of a file system"):
        Source.read(said | {"spool": "s3a://bucket/spool"})
    with pytest.raises(OptionError, match="option checkpointLocation: must be a folder"):
        Source.read(said | {"checkpointLocation": "hdfs://c"})


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"destination": ""}, "destination: must name at least one"),
        ({"receivers": 2, "destination": "/topic/a"}, "receivers: must be 1 for a topic"),
        ({"ack": "auto"}, "ack: must be one of spool, commit"),
        ({"startingOffsets": "7"}, "startingOffsets: must be one of earliest, latest"),
        ({"prefetch": 0}, "prefetch: must be a whole number, 1 or more"),
        ({"prefetc": 5}, 'prefetc: unknown option; did you mean "prefetch"'),
        ({"window": 5}, "window: unknown option"),
    ],
)
def test_a_wrong_option_of_a_reader_is_named(tmp_path: Path, said: dict[str, object], text: str) -> None:
    """The error says which, and what would be right."""
    with pytest.raises(OptionError, match=re.escape(text)):
        source(tmp_path, URI, **said)


def test_a_destination_must_be_given(tmp_path: Path) -> None:
    """There is no default for it."""
    with pytest.raises(OptionError, match="option destination: is missing"):
        Source.read({"uri": URI, "spool": str(tmp_path)})


def test_what_a_writer_can_be_told(tmp_path: Path) -> None:
    """Messages are persistent unless it is said."""
    assert sink().headers == {b"persistent": b"true"}
    made = sink(
        destination="/queue/b",
        persistent="false",
        header_priority=9,
        window=10,
        rate="2.5",
        keyHeader="k",
        id="job",
        progress=tmp_path,
        checkpointLocation="ignored",
    )
    assert (made.destination, made.headers, made.window) == ("/queue/b", {b"priority": b"9"}, 10)
    assert (made.rate, made.key_header, made.id, made.progress) == (2.5, "k", "job", tmp_path)


def test_a_writer_keeps_what_is_not_confirmed() -> None:
    """Where there may be another broker, it is told again."""
    assert sink("failover:(tcp://a,tcp://b)").connection.upstream().confirm
    assert not sink("tcp://a").connection.upstream().confirm


@pytest.mark.parametrize("said", [{"rate": 0}, {"window": 0}, {"keyHeader": ""}, {"groupms": 1}])
def test_a_wrong_option_of_a_writer_is_named(said: dict[str, object]) -> None:
    """Those of readers are none of its own."""
    with pytest.raises(OptionError, match=f"option {next(iter(said))}"):
        Sink.read({"uri": URI} | {name: str(value) for name, value in said.items()})


def test_each_option_is_documented() -> None:
    """What is asked for in the source is explained in the docstring, and the other way round."""
    for module in (options,):
        assert module.__doc__ is not None
        assert module.__file__ is not None
        source_code = Path(module.__file__).read_text(encoding="utf-8")
        asked = set(re.findall(r'given\.get\(\s*"([\w.]+)"', source_code))
        assert asked
        for name in asked:
            assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", module.__doc__), name
