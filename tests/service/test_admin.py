"""Health, metrics, the status page, and orders."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from twisted.web.test.requesthelper import DummyChannel

from stomprelay.relay.model.counters import COUNTERS
from stomprelay.service.admin import site
from tests.service.diary import Diary
from tests.service.house import CONNECT, CONNECTED, SEND, House, failover, listener, movable


class Answer:
    """What the HTTP server answers to one request, whose body may come in several chunks."""

    def __init__(
        self,
        house: House,
        path: str,
        method: str = "GET",
        *chunks: bytes,
        **headers: str,
    ) -> None:
        channel = DummyChannel()
        channel.site = factory = site(house.service, house.reactor)
        request: Any = factory.requestFactory(channel)
        for name, value in headers.items():
            request.requestHeaders.addRawHeader(name.replace("_", "-"), value)
        request.gotLength(sum(map(len, chunks)))
        for chunk in chunks:
            request.handleContentChunk(chunk)
        request.requestReceived(method.encode(), path.encode(), b"HTTP/1.1")
        head, _, body = channel.transport.written.getvalue().partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        }
        self.text = body.decode()

    @property
    def error(self) -> str:
        """Why an order was refused."""
        error = json.loads(self.text)["error"]
        assert isinstance(error, str)
        return error


@pytest.fixture
def house() -> House:
    """Two listeners, one with a name that has to be quoted everywhere."""
    return House(listener(name="public"), listener(name='odd"\\<name>', endpoint="tcp:61614"))


def test_health(house: House) -> None:
    """ok while clients are accepted."""
    answer = Answer(house, "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")
    assert answer.headers["cache-control"] == "no-store"


def test_health_while_stopping(house: House) -> None:
    """A load balancer must send no more clients."""
    house.session()
    _ = house.service.stopService()
    answer = Answer(house, "/healthz")
    assert (answer.status, answer.text) == (503, "stopping\n")


def test_health_of_the_journal(tmp_path: Path) -> None:
    """A disk that fails is told; the relay is unfit only where nobody is read from because of it."""
    diary = Diary(tmp_path)
    assert Answer(diary, "/healthz").text == "ok\n"
    diary.journal.written.trouble = "No space left on device"
    answer = Answer(diary, "/healthz")
    assert (answer.status, answer.text) == (
        200,
        "ok, but the journal cannot be written: No space left on device\n",
    )
    diary.journal.full = True
    answer = Answer(diary, "/healthz")
    assert (answer.status, answer.text) == (
        503,
        "nobody is read from: the journal cannot be written: No space left on device\n",
    )
    diary.journal.written.trouble = ""
    assert Answer(diary, "/healthz").status == 200


LABEL = r"\w+=\"(?:[^\"\\]|\\.)*\""
LINE = re.compile(
    r"(?:# (?:HELP|TYPE) .+|stomprelay_\w+(?:\{LABEL(?:,LABEL)*\})? \d+)".replace("LABEL", LABEL)
)


def test_metrics(house: House) -> None:
    """Every counter of every listener, in lines that Prometheus reads."""
    client, _broker = house.session()
    client.says(SEND)
    answer = Answer(house, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    for counter in COUNTERS:
        for name in ("public", r"odd\"\\<name>"):
            assert (
                sum(line.startswith(f'stomprelay_{counter}_total{{listener="{name}"}} ') for line in lines)
                == 1
            )
    assert 'stomprelay_sessions_connected_total{listener="public"} 1' in lines
    assert f'stomprelay_client_bytes_total{{listener="public"}} {len(CONNECT + SEND)}' in lines
    assert 'stomprelay_sessions{listener="public"} 1' in lines
    assert "stomprelay_connections 2" in lines


def test_the_status_page(house: House) -> None:
    """Listeners and sessions, with versions, the client's address and octets; all of it quoted for HTML."""
    client, _broker = house.session()
    client.says(SEND)
    house.client(1)
    answer = Answer(house, "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<td>public</td><td>tcp:61613</td><td>tcp://192.0.2.1:61613</td>" in answer.text
    assert "<td>1.2 to 1.2</td>" in answer.text
    assert "<td>192.0.2.7:4711</td>" in answer.text
    assert f'<td class="number">{len(CONNECT + SEND)}</td>' in answer.text
    assert "<td>none yet</td>" in answer.text
    assert "Sessions: 2" in answer.text
    assert "<name>" not in answer.text
    assert "odd&quot;\\&lt;name&gt;" in answer.text


def test_secrets_are_not_shown(house: House) -> None:
    """Who knows the page knows no passcode and no login."""
    client = house.client()
    client.says(CONNECT.replace(b"\n\n", b"\nlogin:alice\npasscode:hush\n\n"))
    house.broker()
    for path in ("/", "/metrics"):
        text = Answer(house, path).text
        assert "hush" not in text
        assert "alice" not in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/healthz/more", 404),
        ("GET", "/<script>", 404),
        ("POST", "/metrics", 405),
        ("POST", "/brokers", 405),
        ("PUT", "/brokers/pause", 405),
        ("GET", "/brokers/pause", 405),
        ("OPTIONS", "/brokers/pause", 405),
        ("POST", "/brokers/", 404),
        ("HEAD", "/", 200),
    ],
)
def test_other_requests(house: House, method: str, path: str, status: int) -> None:
    """There is nothing else to see, and nothing to do."""
    answer = Answer(house, path, method)
    assert answer.status == status
    assert method != "HEAD" or (answer.text == "" and int(answer.headers["content-length"]) > 100)
    assert "script" not in answer.text


# Orders

JSON = "application/json"


@pytest.fixture
def pair() -> House:
    """A listener in front of two brokers."""
    return House(listener(upstream=movable(failover(1, 2), drain_timeout=5.0)))


def order(house: House, what: str, body: str | bytes, **headers: str) -> Answer:
    """The answer to a POST of JSON."""
    body = body if isinstance(body, bytes) else body.encode()
    return Answer(house, f"/brokers/{what}", "POST", body, **{"content_type": JSON, **headers})


def states(answer: Answer) -> list[tuple[str, int, int]]:
    """State, sessions and those that are leaving, of every broker."""
    return [(each["state"], each["sessions"], each["moving"]) for each in json.loads(answer.text)["brokers"]]


def test_brokers_in_json(pair: House) -> None:
    """Where each stands, and how it is."""
    pair.session()
    answer = Answer(pair, "/brokers")
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON
    group = pair.service.roster.entries[0].group.name
    assert json.loads(answer.text) == {
        "brokers": [
            {
                "uri": f"tcp://192.0.2.{number}:61613",
                "upstream": "main",
                "group": group,
                "state": state,
                "sessions": sessions,
                "moving": 0,
            }
            for number, state, sessions in ((1, "up", 1), (2, "unknown", 0))
        ]
    }


def test_a_switch_over(pair: House) -> None:
    """Paused, a broker finishes what a session is at, which then moves; resumed, it is as any other."""
    client, broker = pair.session()
    client.says(b"BEGIN\ntransaction:t\n\n\0")
    answer = order(pair, "pause", '{"broker": "192.0.2.1:61613", "within": 30}')
    assert answer.status == 200
    assert states(answer) == [("paused", 1, 1), ("unknown", 0, 0)]
    broker.written()
    client.says(b"COMMIT\ntransaction:t\nreceipt:1\n\n\0")
    broker.says(b"RECEIPT\nreceipt-id:1\n\n\0")
    assert client.written() == b"RECEIPT\nreceipt-id:1\n\n\0"
    (receipt,) = re.findall(rb"DISCONNECT\nreceipt:(.*)\n\n\0", broker.written())
    broker.says(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
    other = pair.broker()
    assert other.written().startswith(b"CONNECT\n")
    other.says(CONNECTED)
    assert client.written() == b""
    client.says(SEND)
    assert other.written() == SEND
    assert states(Answer(pair, "/brokers")) == [("paused", 0, 0), ("up", 1, 0)]
    assert states(order(pair, "resume", '{"broker": "*"}')) == [("up", 0, 0), ("up", 1, 0)]


def test_pausing_all_brokers_holds_clients(pair: House) -> None:
    """Those that come, too; they are served when one is resumed."""
    order(pair, "pause", '{"broker": "*"}')
    client = pair.client()
    client.says(CONNECT)
    pair.reactor.advance(60)
    assert client.written() == b""
    assert pair.reactor.tcpClients == []
    order(pair, "resume", '{"broker": "tcp://192.0.2.2:61613"}')
    broker = pair.broker()
    broker.says(CONNECTED)
    assert client.written().startswith(b"CONNECTED\n")
    assert states(Answer(pair, "/brokers")) == [("paused", 0, 0), ("up", 1, 0)]


def test_a_broker_that_is_not_there(pair: House) -> None:
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
def test_a_bad_order(pair: House, what: str, body: str) -> None:
    """400 with the reason."""
    answer = order(pair, what, body)
    assert answer.status == 400
    assert "must be" in answer.error
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"],
)
def test_an_order_that_a_form_could_send(pair: House, kind: str) -> None:
    """Browsers let pages of other sites send these without asking: refused."""
    answer = order(pair, "pause", '{"broker": "*"}', content_type=kind)
    assert answer.status == 415
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


def test_an_order_without_a_content_type(pair: House) -> None:
    """Refused as any that is not JSON."""
    assert Answer(pair, "/brokers/pause", "POST", b'{"broker": "*"}').status == 415


def test_a_content_type_may_have_parameters(pair: House) -> None:
    """And capitals."""
    assert (
        order(pair, "pause", '{"broker": "*"}', content_type="Application/JSON; charset=utf-8").status == 200
    )


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:61680"])
def test_an_order_from_a_web_page(pair: House, origin: str) -> None:
    """None of ours gives orders, so none is taken: not even from a page whose name leads here."""
    answer = order(pair, "pause", '{"broker": "*"}', origin=origin)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


def test_a_body_without_end(pair: House) -> None:
    """Its end is waited for, it is not kept."""
    chunk = b" " * 1000
    longest = [chunk] * 4 + [b'{"broker": "*"}']
    assert Answer(pair, "/brokers/pause", "POST", *longest, content_type=JSON).status == 200
    answer = Answer(pair, "/brokers/resume", "POST", *[chunk] * 1000, b'{"broker": "*"}', content_type=JSON)
    assert answer.status == 413
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["paused"] * 2


def test_a_body_in_pieces(pair: House) -> None:
    """As it may come."""
    body = b'{"broker": "*"}'
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert Answer(pair, "/brokers/pause", "POST", *pieces, content_type=JSON).status == 200
