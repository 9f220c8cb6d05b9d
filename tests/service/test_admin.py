"""The admin endpoint: health, what is answered to which request, and requests to pause and resume brokers."""

import json
from pathlib import Path
from typing import Any

import pytest
from twisted.web.test.requesthelper import DummyChannel

from stomprelay.service.admin.sessions import BadRequest
from stomprelay.service.admin.site import LONGEST, site
from stomprelay.service.admin.site import _request as parse
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
)


class Answer:
    """What the HTTP server answers to one request, whose body may come in several chunks, at once or later."""

    def __init__(
        self,
        harness: RelayHarness,
        path: str,
        method: str = "GET",
        *chunks: bytes,
        factory: Any = None,
        **headers: str,
    ) -> None:
        channel = DummyChannel()
        channel.site = factory = factory or site(harness.service.state, harness.reactor)
        request: Any = factory.requestFactory(channel)
        headers.setdefault("host", "localhost")
        for name, value in headers.items():
            request.requestHeaders.addRawHeader(name.replace("_", "-"), value)
        request.gotLength(sum(map(len, chunks)))
        for chunk in chunks:
            request.handleContentChunk(chunk)
        request.requestReceived(method.encode(), path.encode(), b"HTTP/1.1")
        self._written = channel.transport.written

    @property
    def status(self) -> int:
        """0 before anything came."""
        return int((self._written.getvalue() or b"HTTP/1.1 0").split()[1])

    @property
    def headers(self) -> dict[str, str]:
        """By their names in small letters."""
        head = self._written.getvalue().partition(b"\r\n\r\n")[0]
        lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
        return {name.strip().lower(): value.strip() for name, _, value in lines}

    @property
    def text(self) -> str:
        """The body."""
        return self._written.getvalue().partition(b"\r\n\r\n")[2].decode()

    @property
    def error(self) -> str:
        """Why an order was refused."""
        error = json.loads(self.text)["error"]
        assert isinstance(error, str)
        return error


@pytest.fixture
def harness() -> RelayHarness:
    """Two listeners, one with a name that has to be quoted everywhere."""
    return RelayHarness(listener(name="public"), listener(name='odd"\\<name>', endpoint="tcp:61614"))


def test_health_while_stopping(harness: RelayHarness) -> None:
    """A load balancer must send no more clients."""
    harness.session()
    _ = harness.service.stopService()
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (503, "stopping\n")
    assert json.loads(Answer(harness, "/overview").text)["stopping"] is True


def test_health_of_the_journal(tmp_path: Path) -> None:
    """A disk that fails is told; the relay is unfit only where nobody is read from because of it."""
    harness = JournalHarness(tmp_path)
    assert Answer(harness, "/healthz").text == "ok\n"
    harness.journal.written.trouble = "No space left on device"
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (
        200,
        "ok, but the journal cannot be written: No space left on device\n",
    )
    harness.journal.full = True
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (
        503,
        "reading has stopped: the journal cannot be written: No space left on device\n",
    )
    harness.journal.written.trouble = ""
    assert Answer(harness, "/healthz").status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/metric", 404),
        ("GET", "/status/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/healthz/more", 404),
        ("GET", "/livez/", 404),
        ("GET", "/readyz/x", 404),
        ("GET", "/<script>", 404),
        ("POST", "/", 405),
        ("POST", "/healthz", 405),
        ("POST", "/metrics", 405),
        ("POST", "/livez", 405),
        ("DELETE", "/readyz", 405),
        ("POST", "/brokers", 405),
        ("PUT", "/brokers/pause", 405),
        ("GET", "/brokers/pause", 405),
        ("OPTIONS", "/brokers/pause", 405),
        ("POST", "/brokers/", 404),
        ("POST", "/sessions", 405),
        ("GET", "/sessions/x/kill", 405),
        ("POST", "/sessions/x", 404),
        ("POST", "/sessions//kill", 404),
        ("POST", "/sessions/x/y/kill", 404),
        ("POST", "/sessions/x/kill/", 404),
        ("GET", "/drain/cancel", 405),
        ("HEAD", "/", 200),
        ("HEAD", "/healthz", 200),
        ("HEAD", "/livez", 200),
        ("HEAD", "/readyz", 503),
        ("HEAD", "/metrics", 200),
    ],
)
def test_other_requests(harness: RelayHarness, method: str, path: str, status: int) -> None:
    """There is nothing else to see, and nothing to do."""
    answer = Answer(harness, path, method)
    assert answer.status == status
    assert method != "HEAD" or (answer.text == "" and int(answer.headers["content-length"]) > 0)
    assert "<script>" not in answer.text


# Requests to pause and resume

JSON = "application/json"


@pytest.fixture
def pair() -> RelayHarness:
    """A listener in front of two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2), drain_timeout=5.0)))


def order(harness: RelayHarness, what: str, body: str | bytes, **headers: str) -> Answer:
    """The answer to a POST of JSON."""
    body = body if isinstance(body, bytes) else body.encode()
    return Answer(harness, f"/brokers/{what}", "POST", body, **{"content_type": JSON, **headers})


def test_drain(pair: RelayHarness) -> None:
    """The answer says how many sessions there are; they stay, and a new client is told why it has none."""
    pair.session()
    drained = {"draining": True, "sessions": 1}
    answer = Answer(pair, "/drain", "POST", b"{}", content_type=JSON)
    assert (answer.status, json.loads(answer.text)) == (200, drained)
    assert json.loads(Answer(pair, "/drain").text) == drained
    error = pair.client().written()
    assert error.startswith(b"ERROR\nmessage:no new connections\n")
    assert b"the relay is being drained: it keeps its clients and takes no others" in error
    assert Answer(pair, "/drain", "POST", b'{"within": 5}', content_type=JSON).status == 400
    answer = Answer(pair, "/drain/cancel", "POST", b"", content_type=JSON)
    assert json.loads(answer.text) == {"draining": False, "sessions": 1}
    assert pair.client().written() == b""
    assert json.loads(Answer(pair, "/drain").text) == {"draining": False, "sessions": 2}


def states(answer: Answer) -> list[tuple[str, int, int]]:
    """State, sessions and those that are leaving, of every broker."""
    return [(each["state"], each["sessions"], each["moving"]) for each in json.loads(answer.text)["brokers"]]


def test_brokers_in_json(pair: RelayHarness) -> None:
    """Where each stands, and how it is."""
    pair.session()
    answer = Answer(pair, "/brokers")
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON
    group = pair.service.state.brokers.configured[0].group.name
    assert json.loads(answer.text) == {
        "brokers": [
            {
                "uri": f"tcp://192.0.2.{number}:61613",
                "upstream": "main",
                "group": group,
                "state": state,
                "sessions": sessions,
                "moving": 0,
                "staying": 0,
                "stays": "",
                "waiting": 0,
            }
            for number, state, sessions in ((1, "up", 1), (2, "unknown", 0))
        ]
    }


def test_pausing_all_brokers_holds_clients(pair: RelayHarness) -> None:
    """Those that come, too; they are served when one is resumed."""
    order(pair, "pause", '{"broker": "*"}')
    client = pair.client()
    client.sends(CONNECT)
    pair.reactor.advance(60)
    assert client.written() == b""
    assert pair.reactor.tcpClients == []
    order(pair, "resume", '{"broker": "tcp://192.0.2.2:61613"}')
    broker = pair.broker()
    broker.sends(CONNECTED)
    assert client.written().startswith(b"CONNECTED\n")
    assert states(Answer(pair, "/brokers")) == [("paused", 0, 0), ("up", 1, 0)]


def test_a_broker_that_is_not_there(pair: RelayHarness) -> None:
    """404, and nothing is done."""
    for what in ("pause", "resume"):
        answer = order(pair, what, '{"broker": "<tcp://elsewhere>"}')
        assert answer.status == 404
        assert answer.error == 'there is no broker "<tcp://elsewhere>"'
        assert answer.headers["content-type"] == JSON
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("what", "body"), [("pause", ""), ("pause", '{"broker": "*", "within": -1}'), ("resume", "[]")]
)
def test_a_bad_order(pair: RelayHarness, what: str, body: str) -> None:
    """400 with the reason."""
    answer = order(pair, what, body)
    assert answer.status == 400
    assert "must be" in answer.error
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"],
)
def test_an_order_that_a_form_could_send(pair: RelayHarness, kind: str) -> None:
    """Browsers let pages of other sites send these without asking: refused."""
    answer = order(pair, "pause", '{"broker": "*"}', content_type=kind)
    assert answer.status == 415
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:61680"])
def test_an_order_from_a_web_page(pair: RelayHarness, origin: str) -> None:
    """None is taken from a page that is not ours: not even from one whose name leads here."""
    answer = order(pair, "pause", '{"broker": "*"}', origin=origin)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


# The body of such a request


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"broker": "*"}', ("*", None)),
        (b' {"broker":"tcp://a:61613","within":30}\n', ("tcp://a:61613", 30.0)),
        (b'{"within": 0.5, "broker": "a:61613"}', ("a:61613", 0.5)),
        (b'{"broker": "", "within": 0}', ("", 0.0)),
    ],
)
def test_an_order(body: bytes, expected: tuple[str, float | None]) -> None:
    """Which broker, and how long it may take."""
    assert parse(body, timed=True) == expected


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "must be JSON"),
        (b"broker=*", "must be JSON"),
        (b'{"broker": "*"', "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[" * 4096, "must be JSON"),
        (b"[]", "must be an object"),
        (b'"*"', "must be an object"),
        (b"null", "must be an object"),
        (b"{}", '"broker" must be'),
        (b'{"broker": 1}', '"broker" must be'),
        (b'{"broker": null}', '"broker" must be'),
        (b'{"broker": "*", "within": "5"}', '"within" must be seconds'),
        (b'{"broker": "*", "within": true}', '"within" must be seconds'),
        (b'{"broker": "*", "within": null}', '"within" must be seconds'),
        (b'{"broker": "*", "within": -1}', '"within" must be seconds'),
        (b'{"broker": "*", "within": NaN}', '"within" must be seconds'),
        (b'{"broker": "*", "within": 1e999}', '"within" must be seconds'),
        (b'{"broker": "*", "within": %d}' % (LONGEST + 1), '"within" must be seconds'),
        (b'{"broker": "*", "wihtin": 1}', 'there is no "wihtin" here; there is broker and within'),
    ],
)
def test_what_is_not_an_order(body: bytes, words: str) -> None:
    """The reason names what is wrong."""
    with pytest.raises(BadRequest, match=words):
        parse(body, timed=True)
