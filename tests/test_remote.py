"""Asking a running relay for its brokers, and pausing them: a small HTTP server stands in for the relay."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stomprelay.relay.model.move import MoveRow
from stomprelay.remote.client import AdminClient, AdminCredentials, AdminError
from stomprelay.remote.commands import (
    MOVE,
    brokers,
    cancel_drain,
    drain,
    kill,
    move,
    moves,
    pause,
    reload,
    resume,
    sessions,
)
from stomprelay.service.admin.sessions import LARGEST
from tests.e2e.certificates import Authority
from tests.fake_admin import A, B, Relay, UnixServer, connected, listed, pages, serving, serving_relay, told


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


def refuses(said: str) -> AbstractContextManager[object]:
    """What ends in an error that says this."""
    return pytest.raises(AdminError, match=said)


def printed(relay: Relay, command: Callable[..., int], *arguments: Any, **options: Any) -> list[str]:
    """What a command prints, which goes well."""
    lines: list[str] = []
    assert command(AdminClient(relay.place), *arguments, lines.append, **options) == 0
    return lines


def paused(relay: Relay, name: str, within: float | None = None) -> tuple[int, list[str], Clock]:
    """Exit status and lines of a pause, and the clock."""
    clock, lines = Clock(), list[str]()
    return pause(AdminClient(relay.place), name, within, lines.append, clock.sleep, clock), lines, clock


def test_all_brokers(relay: Relay) -> None:
    """A table with a heading, numbers to the right."""
    assert printed(relay, brokers) == [
        "broker     upstream  group  state  sessions  moving  waiting",
        "tcp://a:1  main      main   up            3       0        0",
        "ssl://b    main      main   down          0       0        0",
    ]
    assert relay.asked == [("GET", "/brokers", None, None)]


def test_moves(relay: Relay) -> None:
    """A table, why a move is stopped, who stays and who is away; an order is answered with the move alone."""
    one = MoveRow(
        "orders",
        "prefix /q",
        "new",
        "off",
        0.0,
        3,
        1,
        1,
        0,
        5,
        6,
        "it is full",
        [["relay-1", "no"]],
        ["me: s"],
    )
    relay.answer("/moves", json.dumps({"moves": [one.shown, one._replace(name="b").shown]}).encode())
    lines = printed(relay, moves)
    assert lines[0].split() == [each.lstrip("#") for each in MOVE]
    assert lines[1].split() == [
        "orders",
        "prefix",
        "/q",
        "new",
        "off",
        "-",
        "3",
        "1",
        "1",
        "1",
        "0",
        "5",
        "6",
    ]
    assert lines[3:6] == [
        "orders: stopped: it is full; go back with `stomprelay move back orders`",
        "orders: relay-1 stays at OLD: no",
        "orders: not connected since it is off: me: s",
    ]
    said: list[str] = []
    assert move(AdminClient(relay.place), "b", "next", said.append, as_json=True) == 0
    assert json.loads(said[0])["name"] == "b"
    assert relay.asked[-1] == ("POST", "/moves", {"move": "b", "phase": "next"}, "application/json")


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
    with refuses(r"its admin_hosts must name it$"):
        AdminClient(relay.place).brokers()


def test_the_token(relay: Relay) -> None:
    """Said with each request, and in no representation; who does not take it says what is missing, or wrong."""
    known = AdminCredentials(b"0123456789abcdef")
    assert "0123456789abcdef" not in repr(known)
    AdminClient(relay.place).brokers()
    AdminClient(relay.place, known).brokers()
    relay.answer("/sessions/relay-0-1/kill", b'{"killed": "relay-0-1"}')
    AdminClient(relay.place, known).kill("relay-0-1")
    assert relay.said == [None, *["Bearer 0123456789abcdef"] * 2]
    relay.answer("/brokers", (401, b"<html>"))
    with refuses(r"wants its token: name the file with --token-file$"):
        AdminClient(relay.place).brokers()
    with refuses(r"has another token$"):
        AdminClient(relay.place, AdminCredentials(b"x")).brokers()


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
        known = AdminCredentials(**fields)
        expected = named.format(re.escape(str(file)), re.escape(str(tmp_path)))
        if field == "certificate":
            expected = f"{expected}, .*good.key"
        with refuses(rf"^{expected}: cannot be used for TLS: {why}"):
            AdminClient("https://localhost", known).brokers()


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
        with refuses(r"does not speak HTTP: BadStatusLine$"):
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
    with refuses(rf"^what is at {relay.place} is no relay .*\(status {status}\)$"):
        AdminClient(relay.place).brokers()


def test_pause_waits_until_no_session_is_left(relay: Relay) -> None:
    """It says how many are left each time the number changes; and at once, if no other broker takes them."""
    relay.answer("/brokers/pause", told(A._replace(state="paused", sessions=3, moving=3), B))
    left = [A._replace(state="paused", sessions=number) for number in (3, 1, 1, 0)]
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
    here = A._replace(state="paused", sessions=2)
    relay.answer("/brokers/pause", told(here._replace(moving=1, staying=1, stays="ssl://b answered")))
    relay.answer("/brokers", told(A, B), told(here._replace(staying=2, stays="ssl://b answered\x1b")))
    with refuses(r"^a:1: 2 sessions stay, for no other broker took them: ssl://b answered"):
        paused(relay, "a:1", 30)


@pytest.mark.parametrize(("within", "longest"), [(None, 60), (0, 5), (20, 25)])
def test_pause_gives_up(relay: Relay, within: float | None, longest: float) -> None:
    """After the bound, and some time beyond it for those that are leaving."""
    relay.answer("/brokers/pause", told(A._replace(state="paused")))
    relay.answer("/brokers", told(A, B), told(A._replace(state="paused")))
    clock, lines = Clock(), list[str]()
    with refuses(r"^a:1: the sessions that are left did not leave in time; it stays paused$"):
        pause(AdminClient(relay.place), "a:1", within, lines.append, clock.sleep, clock)
    assert lines == ["a:1: paused, 3 sessions left"]
    assert clock.now == 100.0 + longest


def left(sessions: int, draining: bool = True) -> bytes:
    """What a relay answers to who drains it."""
    return json.dumps({"draining": draining, "sessions": sessions}).encode()


def test_drain_waits_until_no_session_is_left(relay: Relay) -> None:
    """It says how many are left each time that changes, also as JSON; after its time the relay stays drained."""
    relay.answer("/drain", left(2), left(2), left(1), left(0))
    clock, lines = Clock(), list[str]()
    assert drain(AdminClient(relay.place), None, lines.append, clock.sleep, clock) == 0
    assert lines == ["draining: 2 sessions left", "draining: 1 session left", "draining: no sessions left"]
    assert [each[:3] for each in relay.asked] == [("POST", "/drain", {}), *[("GET", "/drain", None)] * 3]
    assert drain(AdminClient(relay.place), 0, lines.append, clock.sleep, clock, as_json=True) == 0
    assert lines[3:] == ['{"draining": true, "sessions": 0}']
    relay.answer("/drain", left(1))
    clock, lines = Clock(), list[str]()
    said = r"^1 session is left; new clients are still refused, until `stomprelay drain --cancel`$"
    with pytest.raises(AdminError, match=said):
        drain(AdminClient(relay.place), 5, lines.append, clock.sleep, clock)
    assert clock.now == 105.0


def test_what_is_taken_back(relay: Relay) -> None:
    """Somebody else lets clients in, or resumed the broker, or started the relay anew; or we do."""
    relay.answer("/drain", left(1), left(1, draining=False))
    relay.answer("/drain/cancel", left(1, draining=False))
    clock, lines = Clock(), list[str]()
    with refuses(r"^new clients are accepted again$"):
        drain(AdminClient(relay.place), None, lines.append, clock.sleep, clock)
    assert cancel_drain(AdminClient(relay.place), lines.append) == 0
    assert lines[1:] == ["new clients are accepted again: 1 session"]
    relay.answer("/drain/cancel", b'{"draining": 1, "sessions": 1}')
    with refuses("is no relay that can be asked"):
        cancel_drain(AdminClient(relay.place), lines.append)
    relay.answer("/brokers/pause", told(A._replace(state="paused")))
    relay.answer("/brokers", told(A, B), told(A, B))
    with refuses(r"^a:1: is not paused any more$"):
        paused(relay, "a:1")
    relay.answer("/brokers", told(A, B), told(B))
    with refuses(r"^tcp://a:1: the relay does not know it any more$"):
        paused(relay, "a:1")


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
    known = A._replace(uri=uri)
    relay.answer("/brokers", told(known, A._replace(uri="tcp://other:9"), known._replace(upstream="second")))
    relay.answer("/brokers/resume", told(known))
    assert resume(AdminClient(relay.place), name, lambda _: None) == 0
    assert relay.asked[1][2] == {"broker": uri}


def test_a_name_that_is_not_one_brokers(relay: Relay) -> None:
    """A hint at those that are, and nothing is asked of the relay; of two that may be meant, both are named."""
    relay.answer("/brokers", told(A, B, A._replace(uri="odd")))
    with refuses(r'^tcp://a:2: the relay knows no such broker; did you mean "tcp://a:1"\?$'):
        resume(AdminClient(relay.place), "tcp://a:2", lambda _: None)
    assert len(relay.asked) == 1
    relay.answer("/brokers", told(A, A._replace(uri="stomp://a:1")))
    with refuses(r"^a:1: may be any of tcp://a:1, stomp://a:1; say which$"):
        resume(AdminClient(relay.place), "a:1", lambda _: None)


# Sessions


def path(filters: str = "", sort: str = "session", limit: int = LARGEST, after: str = "") -> str:
    """What is asked for."""
    return f"/sessions?{filters}sort={sort}&limit={limit}&after={after}"


def test_all_sessions(relay: Relay) -> None:
    """A table with a heading, numbers to the right, and whatever a client says in one line."""
    nothing: dict[str, Any] = {"version": None, "idle": None, "destinations": [], "sent_to": []}
    odd = connected(12, login=None, brokers=[None], age=7.2, client="a local socket", **nothing)
    old: dict[str, Any] = {"age": 90000, "idle": 119.9, "limited": "frames (user)"}
    sly = connected(3, login="\x1b[2J", brokers=[], destinations=["/a\nb"], more_destinations=7, **old)
    relay.answer(path(), listed(connected(1), odd, sly))
    assert printed(relay, sessions, (), "session", None) == [
        "session     login    client          version  broker       age   idle  unconfirmed  unacknowledged"
        "  from client  from broker  limited by     subscribed to       sent to",
        "relay-0-1   me       192.0.2.7:4711  1.2      tcp://a:1  1h02m    59s            1               2"
        "          500         6000  -              /queue/a, /queue/b  /queue/a",
        "relay-0-12  -        a local socket  -        searching     7s      -            1               2"
        "          500         6000  -              -                   -",
        "relay-0-3   \\x1b[2J  192.0.2.7:4711  1.2      -          1d01h  1m59s            1               2"
        "          500         6000  frames (user)  /a\\nb, 7 more       /queue/a",
    ]


def looked_twice(relay: Relay, sort: str, top: int | None, **how: Any) -> tuple[list[str], Clock]:
    """What is printed of a relay that is looked at twice; session 2 is quick, and 3 has just come."""
    first = [connected(number, age=10.0) for number in (1, 2)]
    then = [
        connected(1, age=11.0, client_frames=13, broker_frames=24, client_bytes=600, broker_bytes=6200),
        connected(2, age=12.0, client_frames=103, broker_frames=4, client_bytes=1500, broker_bytes=6000),
        connected(3, age=0.5, client_frames=2, broker_frames=0, client_bytes=100, broker_bytes=0),
    ]
    relay.answer(path(sort="session" if sort.endswith("_rate") else sort), listed(*first), listed(*then))
    lines, clock = list[str](), Clock()
    assert sessions(AdminClient(relay.place), (), sort, top, lines.append, sleep=clock.sleep, **how) == 0
    return lines, clock


def test_sessions_by_what_passes_in_a_second(relay: Relay) -> None:
    """All are looked at, and the first of them shown."""
    lines, _ = looked_twice(relay, "bytes_rate", 2)
    assert [line.split()[0] for line in lines] == ["session", "relay-0-2", "relay-0-1"]
    assert "  frames/s  from client/s  from broker/s  limited by  subscribed to" in lines[0]
    assert lines[1].split()[-7:] == ["50", "500", "0", "-", "/queue/a,", "/queue/b", "/queue/a"]
    lines, _ = looked_twice(relay, "frames_rate", 1)
    assert lines[1].startswith("relay-0-2 ")


def test_sessions_page_by_page(relay: Relay) -> None:
    """Until there are no more, or as many as were wanted."""
    wanted = [connected(number) for number in range(LARGEST + 5)]
    following = '["", "relay", 1000]'
    spelled = "%5B%22%22%2C+%22relay%22%2C+1000%5D"
    relay.answer(path(), listed(*wanted[:LARGEST], following=following))
    relay.answer(path(after=spelled), listed(*wanted[LARGEST:]))
    relay.answer(path(after=spelled, limit=5), listed(*wanted[LARGEST:], following="more"))
    relay.answer(path(limit=2), listed(*wanted[:2], following="more"))
    for top, count in ((None, LARGEST + 5), (LARGEST + 5, LARGEST + 5), (2, 2), (LARGEST, LARGEST)):
        assert len(printed(relay, sessions, (), "session", top, as_json=True)) == count
    assert len(relay.asked) == 2 + 2 + 1 + 1


def test_workers_that_are_missing(relay: Relay) -> None:
    """What there is is shown, and that it is not all."""
    relay.answer(path(), listed(connected(1), missing=("worker 2", "worker 3")))
    lines: list[str] = []
    with refuses(r"^worker 2 and worker 3 did not answer: their sessions are left out$"):
        sessions(AdminClient(relay.place), (), "session", None, lines.append)
    assert len(lines) == 2


@pytest.mark.parametrize(
    "said",
    [
        b"{}",
        b"[]",
        listed(connected(1), following=5),  # type: ignore[arg-type]
        listed(connected(1), missing=(5,)),  # type: ignore[arg-type]
        listed({}),
        listed(connected(1, session=5)),
        listed(connected(1, session=None)),
        listed(connected(1, brokers=None)),
        listed(connected(1, destinations=[5])),
        listed(connected(1, age="x")),
        listed(connected(1, client_bytes="5")),
        listed(connected(1)).replace(b"[{", b"[5, {"),
    ],
)
def test_what_is_no_list_of_sessions(relay: Relay, said: bytes) -> None:
    """Whatever else may listen there, or another version."""
    relay.answer(path(), said)
    lines: list[str] = []
    with refuses(rf"^what is at {relay.place} is no relay .*\(status 200\)$"):
        sessions(AdminClient(relay.place), (), "session", None, lines.append)
    assert lines == []


def test_kill(relay: Relay) -> None:
    """By name, whatever is in it; what the relay refuses is told in its words."""
    relay.answer("/sessions/relay-0-1/kill", json.dumps({"killed": "relay-0-1"}).encode())
    relay.answer("/sessions/a%2Fb%3F/kill", (404, b'{"error": "there is no session \\"a/b?\\""}'))
    assert printed(relay, kill, "relay-0-1") == ["relay-0-1: ended"]
    assert relay.asked == [("POST", "/sessions/relay-0-1/kill", {}, "application/json")]
    with refuses(r'says: there is no session "a/b\?"$'):
        kill(AdminClient(relay.place), "a/b?", print)


def test_reload(relay: Relay) -> None:
    """What changed is printed, what needs a restart with that, and why nothing changed is an error."""
    relay.answer(
        "/reload",
        b'{"changed": ["log_level", "listener.b added"], "restart": ["workers"]}',
        b'{"changed": [], "restart": []}',
        (409, b'{"error": "f.toml: log_level: no"}'),
        b'{"changed": [1], "restart": []}',
    )
    assert printed(relay, reload) == ["log_level", "listener.b added", "workers: needs a restart"]
    assert printed(relay, reload) == ["nothing changed"]
    with refuses(r"says: f\.toml: log_level: no$"):
        printed(relay, reload)
    with refuses("is no relay that can be asked for that"):
        printed(relay, reload)
    assert {(method, path) for method, path, *_ in relay.asked} == {("POST", "/reload")}
