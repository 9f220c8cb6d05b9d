"""`[upstream.NAME]` to an upstream."""

from pathlib import Path
from typing import Any

import pytest

from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.config.upstream import location, moved, read
from stomprelay.relay.model.upstream import Upstream


def upstream(folder: str = "/etc/relay", **values: Any) -> Upstream:
    """The upstream of a table with these values, and an address."""
    return read(ConfigTable("f", folder, {"uri": "tcp://b"} | values, ("upstream", "main")))


def refusal(folder: str = "/etc/relay", **values: Any) -> str:
    """What is said about a table with these values, and an address."""
    with pytest.raises(ConfigError) as error:
        upstream(folder, **values)
    return str(error.value)


def test_an_address_alone_has_every_default() -> None:
    """Only the address has to be said."""
    found = upstream()
    [group] = found.groups
    [broker] = group.brokers
    assert (group.name, broker.uri, group.reconnect, found.movable) == ("main", "tcp://b", None, False)
    assert found == Upstream("main", found.groups)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"uri": "failover:(tcp://a,tcp://b)"}, ""),
        ({"uri": "failover:(tcp://a,tcp://b)?priorityBackup=true"}, "main"),
        ({"uri": "failover:(tcp://a,tcp://b)", "policy": "random"}, "main"),
        ({"uri": "failover:(tcp://a,tcp://b)", "policy": "random", "connected": True}, ""),
        ({"uri": "fanout:(failover:(tcp://a,tcp://b),failover:(tcp://c,tcp://d)?randomize=true)"}, "main-2"),
        ({"uri": "failover:(tcp://a)", "policy": "random"}, ""),
        ({"uri": "tcp://a"}, ""),
    ],
)
def test_groups_that_can_part_producers_from_consumers(settings: dict[str, Any], parts: str) -> None:
    """Those whose sessions may be on brokers that do not pass messages on to each other."""
    assert ",".join(each.name for each in upstream(**settings).parts) == parts


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["/queue/a"], "must be a list of pairs"),
        ([["/queue/{a}", "/queue/x"]], '"/queue/{a}" and "/queue/x" must have the same parts'),
        ([["/queue/{a:percentage}", "/queue/{a}"]], 'did you mean "percent"?'),
        ([["/queue/{a}{b}", "/queue/{b}{a}"]], "parts stand in braces, each once, with text between two"),
        ([["/queue/{A}", "/queue/x"]], "parts stand in braces"),
        (
            [["/queue/a", "/queue/x"], ["/queue/a", "/queue/y"]],
            "/queue/a, which comes first, takes all its names",
        ),
        (
            [["/queue/{a}", "/queue/{a}"], ["/queue/b", "/q/b"]],
            "/queue/{a}, which comes first, takes all its names",
        ),
        ([["/queue/a", "/q/x"], ["/queue/b", "/q/x"]], "/queue/a and /queue/b would be one place, /q/x"),
        (
            [["/queue/{a}", "/q/{a}"], ["/topic/{b}", "/q/{b}"]],
            "/queue/{a} and /topic/{b} would be one place, /q/{b}",
        ),
    ],
)
def test_a_map_of_names_that_does_not_lead_back(names: list[Any], said: str) -> None:
    """The error names the rows."""
    found = refusal(map={"names": names})
    assert found.startswith("f: upstream.main.map.names: ")
    assert said in found


def test_the_embedded_broker_reads_no_proxy_header() -> None:
    """Said where the uri stands in the file, and where the command line moves the upstream there."""
    said = "upstream.main.proxy_protocol: the embedded broker (memory:) does not read the PROXY protocol"
    for uri in ("memory:", "failover:(tcp://b,memory:)"):
        assert said in refusal(uri=uri, proxy_protocol=True)
    assert not upstream(uri="memory:", proxy_protocol=False).proxy_protocol
    with pytest.raises(ValueError, match="proxy_protocol: the embedded broker"):
        moved(upstream(proxy_protocol=True), location("memory:"))


@pytest.mark.parametrize("name", ["", "x forwarded", "x:y", "x\\cy", "x\n", "ä", "x" * 65, 5])
def test_a_header_that_has_no_name(name: object) -> None:
    """The client's address needs what is the same name escaped or not, and means nothing else to STOMP."""
    assert "client_address_header: must be a header's name" in refusal(client_address_header=name)
    for taken in ("host", "Login", "receipt", "content-length", "session"):
        assert f"client_address_header: must not be {taken}" in refusal(client_address_header=taken)


MOVING: dict[str, Any] = dict.fromkeys(("resend_buffer", "reconnect_rate", "rebalance_rate"), 5)
MOVING |= {"confirm": True, "drain_timeout": 1, "health": {"probe": 5}}


@pytest.mark.parametrize("key", MOVING)
def test_what_a_plain_address_has_no_use_for(key: str) -> None:
    """An error that says what to write instead; the default may be said, for it changes nothing."""
    said = f'f: upstream.main.{key}: has no effect on a plain address: write uri = "failover:(tcp://b)"'
    assert refusal(**{key: MOVING[key]}) == said
    assert upstream(uri="failover:(tcp://b)", **{key: MOVING[key]}).movable
    assert upstream(uri="fanout:(tcp://b)", **{key: MOVING[key]}).movable
    default: dict[str, Any] = {key: {} if key == "health" else getattr(Upstream, key)}
    assert not upstream(**default).movable


def test_a_file_that_is_no_passcode(tmp_path: Path) -> None:
    """The error names key and file, and never the content."""
    large, lines, empty = tmp_path / "large", tmp_path / "lines", tmp_path / "empty"
    large.write_bytes(b"geheim" * 20000)
    lines.write_bytes(b"geheim\nmehr\n")
    empty.write_bytes(b"")
    for file, said in (
        (large, "is larger than 65536 bytes"),
        (lines, ": must not contain LF, CR or NUL"),
        (empty, ": the file is empty"),
        (tmp_path / "absent", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        text = refusal(login="relay", passcode_file=str(file))
        assert text.startswith(f"f: upstream.main.passcode_file: {file}")
        assert said in text
        assert "geheim" not in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"policy": "random"}, "policy: random needs brokers to choose from"),
        (
            {"uri": "failover:(tcp://a)?randomize=true", "policy": "random"},
            "policy: random excludes the option randomize",
        ),
        ({"health": 5}, "health: must be a table"),
        ({"health": {"pause": 61}}, "health.pause: must not be longer than longest_pause, 60"),
        ({"health": {"destination": "/x"}}, "health.destination: needs probe"),
        ({"url": "tcp://b"}, 'url: unknown key; did you mean "uri"?'),
        ({"passcode": "x"}, "login: is missing"),
        ({"connect_escape": True}, "connect_escape: needs login"),
        ({"uri": "ssl://b", "tls": {"name": "a b"}}, "tls.name: must name a host"),
        ({"login": "l", "passcode": "geheim", "passcode_file": "f"}, "passcode_file: excludes passcode"),
        ({"login": "l", "passcode": ["geheim"]}, "passcode: must be a string"),
        ({"limits": {"connect_timeout": 1}}, "limits.connect_timeout: unknown key"),
        ({"tls": {"ca": "x"}}, "tls: the address does not ask for TLS"),
        ({"uri": "tls:b:1", "tls": {}}, "tls: the endpoint brings TLS of its own"),
        ({"uri": "ssl://b", "tls": {"certificate": "c"}}, "tls.key: is missing"),
        ({"uri": "ssl://b", "tls": {"key": "k"}}, "tls.certificate: is missing"),
        ({"uri": "ssl://b", "tls": {"verify": False}}, "tls.verify: unknown key"),
    ],
)
def test_mistakes_are_told_by_their_key(values: dict[str, Any], said: str) -> None:
    """Whatever is wrong in the table, and no passcode in what is said."""
    text = refusal(**values)
    assert text.startswith(f"f: upstream.main.{said}")
    assert "geheim" not in text


@pytest.mark.parametrize("name", ["broker.example.net", "::1", "10.0.0.1", "müller.example"])
def test_names_to_verify(name: str) -> None:
    """A certificate may be for a name or for an address."""
    assert upstream(uri="ssl://b", tls={"name": name}).tls.name == name
