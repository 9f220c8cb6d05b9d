"""A configuration in words."""

from pathlib import Path

from stomprelay.config.summary import ADVICE, summary
from tests.config.reference import config, put_secrets

FULL = """
admin = "tcp:7"
handover = "/run/relay/handover"
admin_token_file = "admin.token"
metrics = "tcp:8"
limits.clients = 500
admin_hosts = ["relay.example.net", "LocalHost:8080", "[::1]:7"]
[listener.public]
endpoint = "tcp:1"
versions = ["1.2", "1.0"]
heart_beat = [0, 5000]
upstream = "main"
require_utf8 = true
trace = true
[listener.public.tls]
certificate = "/c.pem"
key = "/k.pem"
client_ca = "/ca.pem"
require_client_certificate = true
[listener.public.limits]
clients = 100
clients_per_address = 10
[listener.local]
endpoint = "unix:/run/x"
upstream = "main"
rules_default = "allow"
[listener.own]
endpoint = "ssl:2"
upstream = "built-in"
rules_default = "deny"
[[rule]]
listener = "local"
action = "deny"
send = "/queue/secret"
[upstream.main]
uri = "ssl://broker"
login = "relay"
passcode = "geheim"
host = "/v"
versions = ["1.1"]
heart_beat = [1000, 0]
keep_alive_eol = 0
close_on_error = true
proxy_protocol = true
client_address_header = "x-client"
[upstream.main.map]
names = [["/queue/{name}", "/queue/{name:percent}"], ["a", "b"]]
[upstream.main.tls]
ca = "/b.pem"
certificate = "/own.pem"
key = "/own.key"
[upstream.built-in]
uri = "memory:"
"""


def told(tmp_path: Path, text: str) -> str:
    """The summary of a file with this text."""
    put_secrets(tmp_path)
    return summary(config(tmp_path, text))


def test_everything_that_matters_is_said(tmp_path: Path) -> None:
    """Listeners, upstreams, versions, TLS and limits, each in a line of its own."""
    lines = [" ".join(line.split()) for line in told(tmp_path, FULL).splitlines()]
    for line in (
        "relay",
        "at a stop sessions have 20 s to deliver what their clients sent",
        "handover another relay may take over at /run/relay/handover",
        "names /queue/{name} is /queue/{name:percent}, a is b",
        "log from info on",
        "listener public",
        "endpoint tcp:1",
        "tls certificate /c.pem, key /k.pem; clients must show one by /ca.pem",
        "versions 1.0, 1.2",
        "heart-beats sends none (after 0.5 of it), wants one every 5000 ms (dead after 2 times it)",
        "heads must be UTF-8",
        "trace each SEND gets one, MESSAGEs lose it",
        "trace no",
        f"rules 1, and what none matches is allowed; {ADVICE}",
        "rules none, and what none matches is denied",
        "rules none: clients may do what their brokers let them",
        "listener local",
        "tls no",
        "listener own",
        "tls as the endpoint says",
        "upstream main",
        "address ssl://broker",
        "tls verified as broker by /b.pem; ours is /own.pem, key /own.key",
        "versions 1.1",
        "virtual host /v",
        "login relay, with a passcode; escaped: as the profile says",
        "keep-alive EOLs never",
        "client's address by the PROXY protocol and in the header x-client of CONNECT",
        "on ERROR the session ends",
        "upstream built-in",
        "embedded broker",
        "queue messages 100000",
        "admin",
        "endpoint tcp:7",
        "token needed, but for probes",
        "metrics",
        "endpoint tcp:8",
        "all listeners",
        "clients 500 at most",
        "clients 100 at most, 10 of one address",
        "clients as many as all together may be",
        "hosts its own, relay.example.net, localhost:8080, [::1]:7",
        "warning other machines may reach it without TLS, and whoever is on the way can read the token",
    ):
        assert line in lines


SEVERAL = """
[listener.public]
upstream = "main"
[upstream.main]
uri = "failover:(tcp://a?weight=2,ssl://b:1,tls:c:2,memory:)?timeout=30000&maxReconnectAttempts=0"
confirm = true
policy = "round-robin"
drain_timeout = 2.5
[upstream.main.tls]
ca = "/b.pem"
[upstream.main.health]
probe = 5
destination = "/queue/canary"
[upstream.copies]
uri = '''fanout:(tcp://d,failover:(tcp://e,tcp://f)?randomize=false&priorityBackup=true)?minAckCount=1
    &fanOutQueues=false&warnAfterReconnectAttempts=0&useExponentialBackOff=false&reconnectDelayJitter=0.05'''
resend_buffer = 99
rebalance_rate = 0
reconnect_rate = 0
[upstream.unused]
uri = "tcp://nowhere"
[[route]]
destination = "/queue/exact"
upstream = "main"
[[route]]
prefix = "/topic/"
upstream = "copies"
[[route]]
glob = "/queue/*.x"
upstream = "copies"
"""


def test_several_brokers(tmp_path: Path) -> None:
    """Groups, policy, options, quorum, health and routes, in words; what only routes name is there, too."""
    lines = [" ".join(line.split()) for line in told(tmp_path, SEVERAL).splitlines()]
    for line in (
        'route to main if the destination is "/queue/exact"',
        'route to copies if the destination begins with "/topic/"',
        'route to copies if the destination is like "/queue/*.x"',
        "upstream main",
        "group round-robin: each in its turn, by weight",
        "broker tcp://a; weight 2; tls: no",
        "broker ssl://b:1; tls: verified as b by /b.pem",
        "broker tls:c:2; tls: as the endpoint says",
        "broker memory:; tls: no",
        "reconnecting pauses of 10 ms, each 2 times the one before up to 30 s, 20% more or less; "
        "passes: without end at the start, 1 after a loss; given up after 30 s; a warning every 10 passes",
        "confirm every SEND, by receipts of the relay's own",
        "time to confirm 60 s",
        "kept to re-send 1048576 bytes of a session in a group",
        "after an outage sessions come back 2000 a second",
        "rebalance sessions move to a broker that is there again: 10 a second",
        "moving waits 2.5 s at most for a quiet moment",
        "health failures in a row until a broker is left out: 1; for 1 s at first, 60 s at most; "
        'probed every 5 s by CONNECT and a message to "/queue/canary"',
        "upstream copies",
        "fan-out a SEND goes to all groups, and 1 of 2 must have it; one to a queue goes to the first group alone",
        "group copies-1: one broker",
        "reconnecting pauses of 10 ms, at most 30 s, 5% more or less; "
        "passes: without end at the start, without end after a loss; no time-out; no warnings",
        "group copies-2: the first that can, in the order of the list; back to tcp://e when it is there again",
        "confirm no",
        "kept to re-send 99 bytes of a session in a group",
        "after an outage sessions come back without a limit",
        "rebalance sessions move to a broker that is there again: none",
        "health failures in a row until a broker is left out: 1; for 1 s at first, 60 s at most; not probed",
        "embedded broker",
    ):
        assert line in lines
    assert not any("nowhere" in line for line in lines)
    assert not any(line.startswith("address ") for line in lines)


def test_the_choice_of_a_broker(tmp_path: Path) -> None:
    """Each policy in its own words, and that it may part producers from consumers."""
    for policy, said in (
        (
            "together",
            "together: the one that has the others; else the first that can, in the order of the list",
        ),
        ("failover", "the first that can, in a random order for each session"),
        ("random", "random: any, by weight"),
        ("least-sessions", "least-sessions: the one with the fewest sessions for its weight"),
    ):
        text = f'[upstream.a]\nuri = "failover:(tcp://a,tcp://b)"\npolicy = "{policy}"\n'
        assert f"  group            {said}\n" in told(tmp_path, text)
        warned = "  warning          a: sessions may be on different brokers" in told(tmp_path, text)
        assert warned is (policy != "together")
        assert "warning  " not in told(tmp_path, f"{text}connected = true\n")


JOURNAL = """
[journal]
directory = "/var/lib/j"
relay = "eu-1"
when_full = "block"
bodies = 256
redact = ["token"]
sync_interval = 0
retain_age = 60
retain_size = 1000
[[journal.capture]]
destination = "/queue/*"
bodies = "all"
"""


def test_the_journal(tmp_path: Path) -> None:
    """Where it is kept, and how; nothing of it where none is."""
    assert "journal" not in told(tmp_path, "[journal]\nbodies = 5\n")
    lines = [" ".join(line.split()) for line in told(tmp_path, JOURNAL).splitlines()]
    assert lines[lines.index("journal") : lines.index("relay")] == [
        "journal",
        "directory /var/lib/j",
        "relay eu-1",
        "segments end with 67108864 bytes, or after 60 s",
        "queue 67108864 bytes; when it is full the relay reads from no session",
        "written every 0.2 s, to the disk itself when a segment ends",
        'bodies all where the destination is like "/queue/*"',
        "bodies the first 256 bytes elsewhere",
        "left out the client's passcode, token",
        "retained 60 s, 1000 bytes in all",
    ]
    lines = [" ".join(line.split()) for line in told(tmp_path, "[journal]\ndirectory = '/j'\n").splitlines()]
    assert "relay the name of this machine" in lines
    assert "queue 67108864 bytes; when it is full records are left out, and counted" in lines
    assert "bodies none" in lines
    assert "retained for ever" in lines
