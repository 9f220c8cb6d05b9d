"""Asking a running relay for its brokers, and pausing them: a small HTTP server stands in for the relay."""

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stomprelay.remote import AdminClient, AdminError, Credentials, brokers, pause, resume
from tests.e2e.certificates import Authority
from tests.fake_admin import A, B, Relay, UnixServer, pages, serving, serving_relay, told


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay with two brokers."""
    with serving_relay() as relay:
        yield relay


@dataclass
class Clock:
    """A clock that goes on when somebody sleeps."""

    now: float = 100.0
    slept: int = 0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1


def paused(relay: Relay, name: str, within: float | None = None) -> tuple[int, list[str], Clock]:
    """Exit status and lines of a pause, and the clock."""
    clock, lines = Clock(), list[str]()
    return pause(AdminClient(relay.place), name, within, lines.append, clock.sleep, clock), lines, clock


def test_all_brokers(relay: Relay) -> None:
    """A table with a heading, numbers to the right."""
    lines: list[str] = []
    assert brokers(AdminClient(relay.place), lines.append) == 0
    assert lines == [
        "broker     upstream  group  state  sessions  moving",
        "tcp://a:1  main      main   up            3       0",
        "ssl://b    main      main   down          0       0",
    ]
    assert relay.asked == [("GET", "/brokers", None, None)]


def test_a_url_with_a_path(relay: Relay) -> None:
    """A web server may stand before the relay, which it serves under a name of its own."""
    relay.answer("/relay/brokers", told(A))
    assert AdminClient(f"{relay.place}/relay/").brokers() == [A]


def test_the_endpoint_that_the_relay_was_given(relay: Relay) -> None:
    """With an interface, with all of them, and with none said."""
    for interface in ("", ":interface=127.0.0.1", ":interface=0.0.0.0", r":interface="):
        assert AdminClient(f"tcp:{relay.port}{interface}").brokers() == [A, B]


def test_a_unix_socket(tmp_path: Path) -> None:
    """As in `admin = "unix:..."`."""
    relay = Relay()
    relay.answer("/brokers", told(A))
    server = UnixServer(str(tmp_path / "admin"), pages(relay))
    with serving(server):
        assert AdminClient(f"unix:{tmp_path / 'admin'}:mode=600").brokers() == [A]


@pytest.mark.parametrize(
    "place", ["http://[::1]:{}", "tcp6:{}", r"tcp:{}:interface=\:\:", r"tcp:{}:interface=\:\:1"]
)
def test_ipv6(place: str) -> None:
    """Loopback by its other name."""
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    relay = Relay()
    relay.answer("/brokers", told(A))

    class Server(HTTPServer):
        address_family = socket.AF_INET6

    server = Server(("::1", 0), pages(relay), bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    with serving(server):
        assert AdminClient(place.format(listening.getsockname()[1])).brokers() == [A]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("ftp://127.0.0.1", "must be a URL such as http://127.0.0.1:61680"),
        ("http://", "must be a URL such as"),
        ("http://user:x@127.0.0.1", "must be a URL such as"),
        ("http://127.0.0.1/?x", "must be a URL such as"),
        ("http://127.0.0.1:x", "Port could not be cast to integer"),
        ("61680", "must be an endpoint such as"),
        ("tcp:0", "the port must be a number from 1"),
        ("ssl:61680", "does not tell where to connect to: say the URL"),
        ("haproxy:tcp:61680", "does not tell where to connect to: say the URL"),
        ("systemd:domain=INET:index=0", "does not tell where to connect to: say the URL"),
    ],
)
def test_where_nobody_can_be_asked(place: str, said: str) -> None:
    """Told before anything is tried."""
    with pytest.raises(AdminError) as error:
        AdminClient(place)
    assert str(error.value).startswith(f"{place}: {said}")


def test_a_relay_that_has_another_name(relay: Relay) -> None:
    """It says what to set; a web server between the two may say any name."""
    relay.answer("/brokers", (421, b"this host is not the relay's\n"))
    with pytest.raises(AdminError, match=r"its admin_hosts must name it$"):
        AdminClient(relay.place).brokers()


def test_the_token(relay: Relay) -> None:
    """Is said with each request, where there is one, and in no representation."""
    known = Credentials(b"0123456789abcdef")
    assert "0123456789abcdef" not in repr(known)
    AdminClient(relay.place).brokers()
    AdminClient(relay.place, known).brokers()
    assert relay.said == [None, "Bearer 0123456789abcdef"]


def test_a_token_that_is_not_taken(relay: Relay) -> None:
    """Whoever answers so: what is missing, or that it is another one."""
    relay.answer("/brokers", (401, b"<html>"))
    with pytest.raises(AdminError, match=r"wants its token: name the file with --token-file$"):
        AdminClient(relay.place).brokers()
    with pytest.raises(AdminError, match=r"has another token$"):
        AdminClient(relay.place, Credentials(b"x")).brokers()


@pytest.mark.parametrize(
    ("field", "named"),
    [("ca", "{0}"), ("own", "{0}"), ("certificate", "{0}"), ("key", r"{1}/good\.pem, {0}")],
)
def test_tls_files_that_cannot_be_used(tmp_path: Path, field: str, named: str) -> None:
    """Each is named, with the reason."""
    good = Authority(tmp_path, "authority").issue("good")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n")
    for file, why in ((tmp_path / "absent", "No such file"), (broken, ".")):
        fields: dict[str, Any] = {
            "certificate": str(good.certificate),
            "key": str(good.key),
            field: str(file),
        }
        known = Credentials(**fields)
        expected = named.format(re.escape(str(file)), re.escape(str(tmp_path)))
        if field == "certificate":
            expected = f"{expected}, .*good.key"
        with pytest.raises(AdminError, match=rf"^{expected}: cannot be used for TLS: {why}"):
            AdminClient("https://localhost", known).brokers()


def test_nobody_is_there(tmp_path: Path) -> None:
    """A port without a relay, and a socket that does not exist."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(AdminError, match=rf"^cannot ask the relay at {place}: Connection refused$"):
        AdminClient(place).brokers()
    with pytest.raises(AdminError, match=r"No such file or directory$"):
        AdminClient(f"unix:{tmp_path / 'absent'}").brokers()


def test_what_does_not_speak_http() -> None:
    """Such as a listener for STOMP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"ERROR\nmessage:no\n\n\0")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(AdminError, match=r"does not speak HTTP: BadStatusLine$"):
            AdminClient(f"http://127.0.0.1:{server.getsockname()[1]}").brokers()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"not found\n"),
        (405, b"GET only\n"),
        (500, b"{}"),
        (500, b"[]"),
        (200, b"ok\n"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        (200, b"{}"),
        (200, b'{"brokers": 5}'),
        (200, b'{"brokers": [{}]}'),
        (200, told(A).replace(b"3", b'"3"')),
        (200, told(A).replace(b"3", b"true")),
        (200, told(A).replace(b'"up"', b"null")),
    ],
)
def test_what_is_no_answer_of_a_relay(relay: Relay, status: int, body: bytes) -> None:
    """Whatever else may listen there."""
    relay.answer("/brokers", (status, body))
    with pytest.raises(AdminError, match=rf"^what is at {relay.place} is no relay .*\(status {status}\)$"):
        AdminClient(relay.place).brokers()


@pytest.mark.parametrize("status", [400, 404, 503])
def test_what_the_relay_refuses(relay: Relay, status: int) -> None:
    """In its own words."""
    relay.answer("/brokers/pause", (status, b'{"error": "the relay stops"}'))
    with pytest.raises(AdminError, match=rf"^the relay at {relay.place} says: the relay stops$"):
        AdminClient(relay.place).pause("tcp://a:1")


def test_what_is_asked(relay: Relay) -> None:
    """JSON, with a bound only where one was said."""
    relay.answer("/brokers/pause", told(A))
    relay.answer("/brokers/resume", told(B))
    admin = AdminClient(relay.place)
    assert admin.pause("tcp://a:1") == [A]
    assert admin.pause("*", 2.5) == [A]
    assert admin.resume("ssl://b") == [B]
    assert relay.asked == [
        ("POST", "/brokers/pause", {"broker": "tcp://a:1"}, "application/json"),
        ("POST", "/brokers/pause", {"broker": "*", "within": 2.5}, "application/json"),
        ("POST", "/brokers/resume", {"broker": "ssl://b"}, "application/json"),
    ]


def test_pause_waits_until_no_session_is_left(relay: Relay) -> None:
    """It says how many are left each time the number changes."""
    relay.answer("/brokers/pause", told(replace(A, state="paused", sessions=3, moving=3), B))
    left = [replace(A, state="paused", sessions=number) for number in (3, 1, 1, 0)]
    relay.answer("/brokers", told(A, B), *(told(each, B) for each in left))
    status, lines, clock = paused(relay, "tcp://a:1", 30)
    assert status == 0
    assert lines == [
        "tcp://a:1: paused, 3 sessions left",
        "tcp://a:1: paused, 1 session left",
        "tcp://a:1: paused, no sessions left",
    ]
    assert clock.slept == 4
    assert relay.asked[1][2] == {"broker": "tcp://a:1", "within": 30}


def test_pause_of_an_idle_broker(relay: Relay) -> None:
    """Is over at once."""
    relay.answer("/brokers/pause", told(A, replace(B, state="paused")))
    status, lines, clock = paused(relay, "ssl://b")
    assert (status, lines, clock.slept) == (0, ["ssl://b: paused, no sessions left"], 0)


def test_pause_counts_a_broker_of_two_upstreams_together(relay: Relay) -> None:
    """It is one broker, whatever it is used for."""
    here = replace(A, state="paused", sessions=1)
    there = replace(A, upstream="other", state="paused", sessions=2)
    relay.answer("/brokers/pause", told(here, there))
    relay.answer("/brokers", told(A, B), told(replace(here, sessions=0), replace(there, sessions=0)))
    _, lines, _ = paused(relay, "tcp://a:1")
    assert lines == ["tcp://a:1: paused, 3 sessions left", "tcp://a:1: paused, no sessions left"]


def test_pause_of_all(relay: Relay) -> None:
    """Every broker counts."""
    relay.answer("/brokers/pause", told(replace(A, state="paused"), replace(B, state="paused", sessions=1)))
    relay.answer(
        "/brokers", told(A, B), told(replace(A, state="paused", sessions=0), replace(B, state="paused"))
    )
    status, lines, _ = paused(relay, "*")
    assert (status, lines[0]) == (0, "*: paused, 4 sessions left")
    assert relay.asked[1][2] == {"broker": "*"}


@pytest.mark.parametrize(("within", "longest"), [(None, 60), (0, 5), (20, 25)])
def test_pause_gives_up(relay: Relay, within: float | None, longest: float) -> None:
    """After the bound, and some time beyond it for those that are leaving."""
    relay.answer("/brokers/pause", told(replace(A, state="paused")))
    relay.answer("/brokers", told(A, B), told(replace(A, state="paused")))
    clock, lines = Clock(), list[str]()
    with pytest.raises(
        AdminError, match=r"^a:1: the sessions that are left did not leave in time; it stays paused$"
    ):
        pause(AdminClient(relay.place), "a:1", within, lines.append, clock.sleep, clock)
    assert lines == ["a:1: paused, 3 sessions left"]
    assert clock.now == 100.0 + longest


def test_a_pause_that_is_taken_back(relay: Relay) -> None:
    """Somebody else resumed the broker, or the relay was started anew with another configuration."""
    relay.answer("/brokers/pause", told(replace(A, state="paused")))
    relay.answer("/brokers", told(A, B), told(A, B))
    with pytest.raises(AdminError, match=r"^a:1: is not paused any more$"):
        paused(relay, "a:1")
    relay.answer("/brokers", told(A, B), told(B))
    with pytest.raises(AdminError, match=r"^tcp://a:1: the relay does not know it any more$"):
        paused(relay, "a:1")


def test_resume(relay: Relay) -> None:
    """How the broker is then."""
    relay.answer("/brokers/resume", told(replace(A, state="unknown", sessions=0), B))
    lines: list[str] = []
    assert resume(AdminClient(relay.place), "a:1", lines.append) == 0
    assert lines[1].split() == ["tcp://a:1", "main", "main", "unknown", "0", "0"]
    assert len(lines) == 2
    assert relay.asked[1][2] == {"broker": "tcp://a:1"}


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("tcp://broker:61613", "broker:61613"),
        ("tcp://broker", "broker:61613"),
        ("tcp://broker/", "broker:61613"),
        ("ssl://Broker", "broker:61614"),
        ("tcp://broker:5", "BROKER:5"),
        ("tcp:broker:7", "broker:7"),
        ("tls:host=broker:port=7", "broker:7"),
        ("tcp://[::1]:5", "[::1]:5"),
        ("unix:/run/broker", "unix:/run/broker"),
        ("memory:", "memory:"),
        ("tcp://broker:61613", "tcp://broker:61613"),
        ("something else", "something else"),
    ],
)
def test_how_a_broker_may_be_called(relay: Relay, uri: str, name: str) -> None:
    """By its URI as configured, or by host and port."""
    known = replace(A, uri=uri)
    relay.answer("/brokers", told(known, replace(A, uri="tcp://other:9"), replace(known, upstream="second")))
    relay.answer("/brokers/resume", told(known))
    assert resume(AdminClient(relay.place), name, lambda _: None) == 0
    assert relay.asked[1][2] == {"broker": uri}


def test_a_broker_that_is_not_there(relay: Relay) -> None:
    """A hint at those that are; nothing is asked of the relay."""
    relay.answer("/brokers", told(A, B, replace(A, uri="odd")))
    with pytest.raises(
        AdminError, match=r'^tcp://a:2: the relay knows no such broker; did you mean "tcp://a:1"\?$'
    ):
        resume(AdminClient(relay.place), "tcp://a:2", lambda _: None)
    assert len(relay.asked) == 1


def test_a_name_for_two_brokers(relay: Relay) -> None:
    """TLS and plain on one port cannot be, but a name may be written in two ways."""
    relay.answer("/brokers", told(A, replace(A, uri="stomp://a:1")))
    with pytest.raises(AdminError, match=r"^a:1: may be any of tcp://a:1, stomp://a:1; say which$"):
        resume(AdminClient(relay.place), "a:1", lambda _: None)
