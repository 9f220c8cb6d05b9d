"""The options of `format("stomp")`, and how Spark hands them over."""

import io
import re
from pathlib import Path

import pytest
from pyspark.util import handle_worker_exception

from stomprelay.config import values
from stomprelay.pipeline.stomp import options
from stomprelay.pipeline.stomp.datasource import StompDataSource
from stomprelay.pipeline.stomp.options import ConnectionOptions, GivenOptions, OptionError, ReaderOptions
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.session.leg import Terms
from tests.pipeline.stomp.rig import URI, sink, source

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text(encoding="utf-8")
KNOWN = set(f"{options.BOTH}{options.READING} {options.WRITING}".split())


def told(said: str) -> dict[str, str]:
    """Options as `name=value`, apart by spaces."""
    return dict(each.split("=", 1) for each in said.split())


def test_all_that_a_reader_can_be_told(tmp_path: Path) -> None:
    """Each option arrives where it is used, times in seconds."""
    said = told(
        "destination=/queue/a,/queue/b ack=commit prefetch=7 receivers=2 groupSize=5 groupMs=20 backlog=9 retain=60 "
        "maxMessagesPerTrigger=3 minPartitions=4 idleMs=100 drainMs=500 startingOffsets=latest "
        "failOnDataLoss=false includeHeaders=false header_durable=true"
    )
    made = source(tmp_path, selector="a = 1", **said)
    assert made.destinations == ("/queue/a", "/queue/b")
    assert (made.late, made.prefetch, made.receivers) == (True, 7, 2)
    assert (made.group_size, made.group_age, made.backlog, made.most, made.partitions) == (5, 0.02, 9, 3, 4)
    assert (made.idle, made.drain, made.earliest, made.strict) == (0.1, 0.5, False, False)
    assert (made.include_headers, made.retain) == (False, 60)
    prefetch = {b"prefetch-count": b"7", b"activemq.prefetchSize": b"7"}
    assert made.headers == {**prefetch, b"selector": b"a = 1", b"durable": b"true"}


def test_kafkas_names_are_known(tmp_path: Path) -> None:
    """A sequence is an offset, and a destination is what is subscribed to."""
    assert source(tmp_path, maxOffsetsPerTrigger=8).most == 8
    made = ReaderOptions.read({"uri": URI, "spool": str(tmp_path), "subscribe": "/queue/a,/queue/b"})
    assert made.destinations == ("/queue/a", "/queue/b")


def test_the_spool_has_to_be_known() -> None:
    """Spark does not tell a source where its checkpoint is, and the error says what to do."""
    said = {"uri": URI, "destination": "/queue/a"}
    with pytest.raises(OptionError, match=r"option spool: is missing: a folder.*checkpointLocation to the"):
        ReaderOptions.read(said)
    made = ReaderOptions.read(said | {"checkpointLocation": "/tmp/c"})
    assert made.spool == Path("/tmp/c") / options.SPOOL
    assert ReaderOptions.read(said | {"spool": "file:///tmp/s"}).spool == Path("/tmp/s")
    with pytest.raises(OptionError, match="option checkpointLocation: must be a folder"):
        ReaderOptions.read(said | {"checkpointLocation": "hdfs://c"})


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"destination": ""}, "destination: must name at least one"),
        ({"subscribe": "/queue/a"}, "destination: is another name for subscribe"),
        ({"spool": "s3a://bucket/spool"}, "spool: must be a folder of a file system"),
        ({"receivers": 2, "destination": "/topic/a"}, "receivers: must be 1 for a topic"),
        ({"ack": "auto"}, "ack: must be one of spool, commit"),
        ({"startingOffsets": "7"}, "startingOffsets: must be one of earliest, latest"),
        ({"prefetch": 0}, "prefetch: must be a positive whole number"),
        ({"topic": "a"}, "topic: is of Kafka's writers"),
    ],
)
def test_a_wrong_option_of_a_reader_is_named(tmp_path: Path, said: dict[str, object], text: str) -> None:
    """The error says which, and what would be right."""
    with pytest.raises(OptionError, match=re.escape(f"option {text}")):
        source(tmp_path, URI, **said)


def test_the_table_of_kafkas_options_is_what_holds() -> None:
    """What it calls the same is taken under that name; all else is refused, and what is refused is in it."""
    table = PAGE.partition("### What is as with Kafka")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:3] == "| `"
    ]
    named = {name: row[1] for row in rows for name in re.findall(r"`([\w.]+?)\*?`", row[0])}
    assert {name for name, said in named.items() if said == "same"} <= KNOWN
    refused = {name for name, said in named.items() if said == "no"}
    assert refused == options.FOREIGN.keys() - {"kafka.bootstrap.servers"}
    others = {name: said.strip("`") for name, said in named.items() if said not in ("same", "no")}
    assert others == {"kafka.bootstrap.servers": "uri", "topic": "destination"}
    assert set(others.values()) <= KNOWN
    assert not KNOWN & options.FOREIGN.keys()


def test_what_a_writer_can_be_told(tmp_path: Path) -> None:
    """Messages are persistent unless it is said; where there may be another broker, they are told again."""
    assert sink().headers == {b"persistent": b"true"}
    said = told(
        "destination=/queue/b persistent=false header_priority=9 window=10 rate=2.5 keyHeader=k id=job"
    )
    made = sink(progress=tmp_path, checkpointLocation="ignored", **said)
    assert (made.destination, made.headers, made.window) == ("/queue/b", {b"priority": b"9"}, 10)
    assert (made.rate, made.key_header, made.id, made.progress) == (2.5, "k", "job", tmp_path)
    assert sink("failover:(tcp://a,tcp://b)").connection.upstream().confirm
    assert not sink("tcp://a").connection.upstream().confirm


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"rate": 0}, "rate: "),
        ({"window": 0}, "window: "),
        ({"keyHeader": ""}, "keyHeader: "),
        ({"groupms": 1}, "groupms: "),
        ({"topic": "a"}, "topic: say destination"),
        ({"subscribe": "a"}, "subscribe: is for reading"),
        ({"includeHeaders": "true"}, "includeheaders: is for reading"),
    ],
)
def test_a_wrong_option_of_a_writer_is_named(said: dict[str, object], text: str) -> None:
    """Those of readers are none of its own."""
    with pytest.raises(OptionError, match=f"option {text}"):
        sink(**said)


def test_each_option_is_known_asked_for_and_documented() -> None:
    """What may be given is what the source asks for, and is explained on the page."""
    assert options.__file__ is not None
    source_code = Path(options.__file__).read_text(encoding="utf-8")
    asked = set(re.findall(r'given\.(?:get|either)\(\s*"([\w.]+)"', source_code))
    asked |= set(re.findall(r'given\.either\(\s*"\w+", "(\w+)"', source_code))
    asked |= set(re.findall(r'given\.get\("\w+", text\), given\.get\("(\w+)"', source_code))
    elsewhere = {"headers", "login", "host", "profile", "policy", "password", "passcode", "passcodeFile"}
    elsewhere |= {name for name in KNOWN if name.startswith("tls.")}
    assert asked - KNOWN == set()
    assert KNOWN - asked - elsewhere == set()
    for name in KNOWN:
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", PAGE), name


def connection(**options: str) -> ConnectionOptions:
    """Read options; `_` in names stands for a dot."""
    said = {name.replace("_", "."): value for name, value in options.items()}
    return ConnectionOptions.read(GivenOptions(said), {"confirm": True})


def test_a_place_is_written_as_for_the_relay() -> None:
    """Any list of brokers, with the relay's defaults."""
    upstream = connection(uri="failover:(tcp://a:1,ssl://b)?randomize=false").upstream()
    assert [str(broker) for broker in upstream.brokers] == ["tcp://a:1", "ssl://b"]
    assert upstream.movable
    assert upstream.confirm
    assert connection(uri="fanout:(tcp://a,tcp://b)?minAckCount=2").upstream().quorum == 2
    assert not connection(uri="tcp://a").upstream().confirm


def test_the_path_is_a_place_too() -> None:
    """As `load` and `save` take it; twice the same is said once."""
    assert str(connection(path="tcp://a").upstream().brokers[0]) == "tcp://a"
    assert connection(path="tcp://a", uri="tcp://a").timeout == 120
    with pytest.raises(OptionError, match="option uri: is said twice"):
        connection(path="tcp://a", uri="tcp://b")
    with pytest.raises(OptionError, match=r"option uri: is missing: tcp://host:61613"):
        connection()


def test_all_that_can_be_said() -> None:
    """Each option arrives where it is used, and secrets are in no `repr`."""
    said = told(
        "login=guest password=s3cret host=/v clientId=c profile=rabbitmq versions=1.1,1.2 policy=round-robin "
        "heartBeatMs=500 connectTimeoutMs=1500 timeoutMs=2500 tls_ca=ca.pem tls_name=broker"
    )
    made = connection(uri="failover:(ssl://a,ssl://b)", **said)
    upstream = made.upstream()
    assert upstream.credentials is not None
    assert (upstream.credentials.login, upstream.credentials.passcode) == (b"guest", b"s3cret")
    assert (upstream.host, upstream.profile) == (b"/v", RABBITMQ)
    assert upstream.versions == frozenset({b"1.1", b"1.2"})
    assert upstream.groups[0].policy is Policy.ROUND_ROBIN
    assert upstream.heart_beat == Terms(500, 500, tolerance=2.5)
    assert upstream.connect_timeout == 1.5
    assert (upstream.tls.name, upstream.tls.ca) == ("broker", str(Path.cwd() / "ca.pem"))
    assert (made.client_id, made.timeout) == ("c", 2.5)
    assert "s3cret" not in repr(made) + repr(upstream)


def test_a_passcode_may_stand_in_a_file(tmp_path: Path) -> None:
    """It is read where the connection is made: the options can be looked at where it is not."""
    made = connection(uri="tcp://a", login="guest", passcodeFile=str(tmp_path / "secret"))
    with pytest.raises(OptionError, match=r"option passcodeFile: .*secret cannot be read"):
        made.upstream()
    (tmp_path / "secret").write_text("s3cret\n")
    credentials = made.upstream().credentials
    assert credentials is not None
    assert credentials.passcode == b"s3cret"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"uri": "memory:"}, "option uri: memory: is the embedded broker of a relay, in the relay's own"),
        ({"uri": "tls:a:1"}, "option uri: tls:a:1 is an endpoint that only Twisted knows, and Spark runs"),
        ({"uri": "failover:(tcp://a,ssl:b:1)"}, "is an endpoint that only Twisted knows"),
        ({"uri": "http://a"}, "option uri: must be tcp://host:port"),
        ({"uri": "tcp://user:s3cret@a"}, "option uri: must not hold a user or a password"),
        ({"uri": "tcp://a", "policy": "random"}, "option policy: random needs brokers to choose from"),
        ({"uri": "tcp://a", "profile": "rabbit"}, "option profile: must be one of"),
        ({"uri": "tcp://a", "versions": "2.0"}, "option versions: must be a list of versions"),
        ({"uri": "tcp://a", "password": "s3cret"}, "option login: is missing"),
        ({"uri": "tcp://a", "login": "l", "passcode": "s3cret"}, "option passcode: would be shown in Spark"),
        ({"uri": "tcp://a", "passcodeFile": "f"}, "option login: is missing"),
        (
            {"uri": "tcp://a", "login": "l", "password": "s3cret", "passcodeFile": "f"},
            "option passcodeFile: excludes password",
        ),
        ({"uri": "tcp://a", "tls_ca": "x"}, "option tls: the address does not ask for TLS"),
        ({"uri": "ssl://a", "tls_key": "x"}, "option tls.certificate: is missing"),
        ({"uri": "tcp://a", "heartBeatMs": "-1"}, "option heartBeatMs: must be a whole number"),
    ],
)
def test_what_is_wrong_is_told_by_its_option(said: dict[str, str], text: str) -> None:
    """In given that show no secret."""
    with pytest.raises(OptionError, match=re.escape(text)) as caught:
        connection(**said)
    assert "s3cret" not in str(caught.value)


def test_several_connections_have_names_of_their_own() -> None:
    """A broker knows each client by its id once."""
    made = connection(uri="tcp://a", clientId="c")
    assert made.client("x").client_id == "c"
    assert made.client("x", 2).client_id == "c-2"
    assert connection(uri="tcp://a").client("x", 2).client_id is None


@pytest.mark.parametrize(
    ("further", "told"),
    [
        ({"spol": "/s"}, 'option spol: unknown option; did you mean "spool"?'),
        ({"spool": "/s", "uri": ""}, "option uri: must be a string that is not empty"),
        ({"spool": f"{__file__}/x"}, f"option spool: {__file__}/x cannot be made: {__file__} is no folder"),
    ],
)
def test_what_is_wrong_is_the_first_line_of_what_spark_shows(
    further: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as the source is loaded, also where the spool is wrong, and without a traceback."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")  # as where Spark makes data sources
    source = StompDataSource({"uri": "tcp://a:61613", "subscribe": "/queue/a", **further})
    shown = io.BytesIO()
    try:
        source.schema()
    except OptionError as error:
        handle_worker_exception(error, shown)
    assert told in shown.getvalue()[8:].decode().splitlines()[0]


def test_what_nobody_knows_is_refused() -> None:
    """A misspelt option gets a hint, one known from elsewhere its own words; headers pass."""
    names, foreign = "groupSize path", {"assign": "has no meaning", "kafka.": "is Kafka's"}
    GivenOptions({"groupsize": "3", "path": "x", "header.a": "b"}).only(names, foreign)
    for name, said in (
        ("groupsise", 'unknown option; did you mean "groupSize"'),
        ("assign", "has no meaning"),
        ("kafka.x.y", "is Kafka's"),
    ):
        with pytest.raises(OptionError, match=f"option {name}: {re.escape(said)}"):
            GivenOptions({name: "3"}).only(names, foreign)


def test_headers_come_one_by_one_or_as_json() -> None:
    """Brokers' own names get their case back; any other needs JSON for it, which goes first."""
    singly = {"header.activemq.prefetchsize": "7", "header.jmsxgroupid": "g", "header.x-other": "1"}
    given = GivenOptions({**singly, "headers": '{"X-Other": "2", "x-other": "3"}'})
    brokers = {b"activemq.prefetchSize": b"7", b"JMSXGroupID": b"g"}
    assert given.headers() == {**brokers, b"x-other": b"3", b"X-Other": b"2"}


@pytest.mark.parametrize("wrong", ["[]", "7", '{"a": 1}', "{"])
def test_headers_are_a_json_object_of_texts(wrong: str) -> None:
    """Anything else is told."""
    with pytest.raises(OptionError, match="option headers: must be a JSON object"):
        GivenOptions({"headers": wrong}).headers()


def test_lists_are_written_with_commas_or_as_json() -> None:
    """JSON is for names with commas in them; each counts once, and none is nothing."""
    lists = {"/queue/a": ("/queue/a",), "/queue/a, /queue/b,/queue/a": ("/queue/a", "/queue/b")}
    lists['["/queue/a,b", "/queue/c"]'] = ("/queue/a,b", "/queue/c")
    assert {said: options.listed(said) for said in lists} == lists
    for wrong in ("", "a,,b", "[", "[1]", "[]", '[""]'):
        with pytest.raises(ValueError, match="must"):
            options.listed(wrong)


def test_numbers_flags_and_choices() -> None:
    """What each reader takes, and what it does not."""
    assert (options.plain(values.per_second)("0.5"), options.plain(values.flag)("TRUE")) == (0.5, True)
    assert options.choice("spool", "commit")("Commit") == "commit"
    for reader, wrong in (
        *((options.plain(values.per_second), text) for text in ("0", "inf", "x")),
        *((options.plain(values.count), text) for text in ("-1", "0", "1.5", "9" * 20)),
        *((options.plain(values.flag), "yes"), (options.choice("a"), "b")),
    ):
        with pytest.raises(ValueError, match="must"):
            reader(wrong)
