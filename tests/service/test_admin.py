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
    listener,
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


def test_health_of_the_journal(tmp_path: Path) -> None:
    """A disk that fails is told; the relay is unfit only where nobody is read from because of it."""
    harness = JournalHarness(tmp_path)
    fails = "the journal cannot be written: No space left on device"
    for trouble, full, status, text in (
        ("", False, 200, "ok"),
        ("No space left on device", False, 200, f"ok, but {fails}"),
        ("No space left on device", True, 503, f"reading has stopped: {fails}"),
        ("", True, 200, "ok"),
    ):
        harness.journal.written.trouble, harness.journal.full = trouble, full
        answer = Answer(harness, "/healthz")
        assert (answer.status, answer.text) == (status, f"{text}\n")


def requests(table: str) -> list[tuple[str, str, int]]:
    """The method, path and status of each request of a table: a line has a method, a status, and paths."""
    rows = map(str.split, table.strip().splitlines())
    return [(method, path, int(status)) for method, status, *paths in rows for path in paths]


REQUESTS = """
GET     404 /nothing /metric /status/ /../etc/passwd /healthz/more /livez/ /readyz/x /<script>
GET     405 /brokers/pause /sessions/x/kill /drain/cancel
POST    404 /brokers/ /sessions/x /sessions//kill /sessions/x/y/kill /sessions/x/kill/
POST    405 / /healthz /metrics /livez /brokers /sessions
PUT     405 /brokers/pause
DELETE  405 /readyz
OPTIONS 405 /brokers/pause
HEAD    200 / /healthz /livez /metrics
HEAD    503 /readyz
"""


@pytest.mark.parametrize(("method", "path", "status"), requests(REQUESTS))
def test_other_requests(harness: RelayHarness, method: str, path: str, status: int) -> None:
    """There is nothing else to see, and nothing to do."""
    answer = Answer(harness, path, method)
    assert answer.status == status
    assert method != "HEAD" or (answer.text == "" and int(answer.headers["content-length"]) > 0)
    assert "<script>" not in answer.text


# Requests to pause and resume

JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


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
    both = {"upstream": "main", "group": pair.service.state.brokers.configured[0].group.name}
    none = {"moving": 0, "staying": 0, "stays": "", "waiting": 0}
    assert json.loads(answer.text)["brokers"] == [
        {"uri": f"tcp://192.0.2.{number}:61613", "state": state, "sessions": sessions, **both, **none}
        for number, state, sessions in ((1, "up", 1), (2, "unknown", 0))
    ]


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
    ("status", "what", "body", "kind"),
    [
        (400, "pause", "", JSON),
        (400, "pause", '{"broker": "*", "within": -1}', JSON),
        (400, "resume", "[]", JSON),
        *(
            (415, "pause", '{"broker": "*"}', kind)
            for kind in ("", "text/plain", "application/jsonp", *FORMS)
        ),
    ],
)
def test_an_order_that_is_refused(pair: RelayHarness, status: int, what: str, body: str, kind: str) -> None:
    """What is wrong with it is told. Browsers let pages of other sites send what is not JSON without asking."""
    answer = order(pair, what, body, content_type=kind)
    assert answer.status == status
    assert status != 400 or "must be" in answer.error
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


NO_TIMES = (b'"5"', b"true", b"null", b"-1", b"NaN", b"1e999", b"%d" % (LONGEST + 1))
NO_ORDERS = {
    "must be JSON": (b"", b"broker=*", b'{"broker": "*"', b"\xff\xfe", b"[" * 4096),
    "must be an object": (b"[]", b'"*"', b"null"),
    '"broker" must be': (b"{}", b'{"broker": 1}', b'{"broker": null}'),
    '"within" must be seconds': [b'{"broker": "*", "within": %b}' % each for each in NO_TIMES],
    'there is no "wihtin" here; there is broker and within': (b'{"broker": "*", "wihtin": 1}',),
}


@pytest.mark.parametrize(
    ("words", "body"), [(words, each) for words in NO_ORDERS for each in NO_ORDERS[words]]
)
def test_what_is_not_an_order(words: str, body: bytes) -> None:
    """The reason names what is wrong."""
    with pytest.raises(BadRequest, match=words):
        parse(body, timed=True)
