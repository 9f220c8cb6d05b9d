"""What `check` prints of a configuration."""

import re
from collections.abc import Iterator
from pathlib import Path

from stomprelay.config.summary import ADVICE, summary
from tests.config.reference import config, everything, put_secrets, settings

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
headers = [
  { header = "a", drop = true },
  { on = ["SEND", "MESSAGE"], header = "b", becomes = "c" },
  { header = "d", destination = "/queue/*", add = "1" },
]
[upstream.main.tls]
ca = "/b.pem"
certificate = "/own.pem"
key = "/own.key"
[upstream.built-in]
uri = "memory:"
"""


def told(tmp_path: Path, text: str) -> list[str]:
    """The lines of the summary of a file with this text, with single blanks."""
    put_secrets(tmp_path)
    return [" ".join(line.split()) for line in summary(config(tmp_path, text)).splitlines()]


def test_every_setting_is_said(tmp_path: Path) -> None:
    """By the name that it has in a file, below its table; but what is kept secret, and what other lines say."""
    lines = told(tmp_path, everything())
    known = {f"{title}.{line.split()[0]}".removeprefix(".") for title, line in titled(lines)}
    known = {each.replace(".default.", ".NAME.") for each in known}
    wanted = {each.key for each in settings() if "[N]" not in each.key}
    assert {each for each in wanted - known if not each.startswith(("move.", "broker."))} == {
        *("admin_hosts", "auth.NAME.token.keys", "auth.NAME.token.renew", "listener.NAME.rules_default"),
        *(
            "upstream.NAME.uri",
            "upstream.NAME.policy",
            "upstream.NAME.passcode",
            "upstream.NAME.passcode_file",
        ),
    }


def titled(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The lines below titles, each with its title."""
    title = ""
    for line in lines:
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", line):
            title = "" if line == "relay" else line
        else:
            yield title, line


def test_everything_that_matters_is_said(tmp_path: Path) -> None:
    """Listeners, upstreams, versions, TLS and limits, each in a line of its own."""
    lines = told(tmp_path, FULL)
    for line in (
        "stop_timeout 20",
        "handover /run/relay/handover",
        "names /queue/{name} is /queue/{name:percent}, a is b",
        "headers a of SEND is left out, b of SEND, MESSAGE becomes c, d of SEND is 1",
        "log_level info",
        "listener.public",
        "endpoint tcp:1",
        "listener.public.tls",
        "client_ca /ca.pem",
        "versions 1.0, 1.2",
        "heart_beat 0, 5000",
        "require_utf8 true",
        "trace true",
        f"rules 1, and what none matches is allowed; {ADVICE}",
        "rules none, and what none matches is denied",
        "rules none: clients may do what their brokers let them",
        "listener.local",
        "listener.own",
        "upstream.main",
        "broker ssl://broker",
        "upstream.main.tls",
        "certificate /own.pem",
        "host /v",
        "login relay, with a passcode",
        "keep_alive_eol 0",
        "proxy_protocol true",
        "client_address_header x-client",
        "close_on_error true",
        "upstream.built-in",
        "broker",
        "queue_messages 100000",
        "admin tcp:7",
        "admin_token_file needed, but for probes",
        "metrics tcp:8",
        "clients 500",
        "clients 100",
        "clients_per_address 10",
        "admin_hosts relay.example.net, localhost:8080, [::1]:7",
        "warning other machines may reach it without TLS, and whoever is on the way can read the token",
    ):
        assert line in lines
    assert not any(line.startswith("confirm ") for line in lines)  # it has no effect on a plain address


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
    lines = told(tmp_path, SEVERAL)
    for line in (
        'route to main if the destination is "/queue/exact"',
        'route to copies if the destination begins with "/topic/"',
        'route to copies if the destination is like "/queue/*.x"',
        "group main round-robin: each in its turn, by weight",
        "broker tcp://a; weight 2",
        "broker ssl://b:1",
        "reconnecting randomize true, initial delay 0.01, longest delay 30, exponential true, multiplier 2, "
        "jitter 0.2, attempts 0, startup attempts -1, priority backup false, timeout 30, warn after 10",
        "confirm true",
        "drain_timeout 2.5",
        "probe 5",
        "destination /queue/canary",
        "fan-out a SEND goes to all groups, and 1 of 2 must have it; one to a queue goes to the first group alone",
        "group copies-1 one broker",
        "reconnecting randomize true, initial delay 0.01, longest delay 30, exponential false, multiplier 2, "
        "jitter 0.05, attempts -1, startup attempts -1, priority backup false, timeout without end, warn after never",
        "group copies-2 the first that can, in the order of the list; back to tcp://e when it is there again",
        "resend_buffer 99",
        "rebalance_rate 0",
    ):
        assert line in lines
    assert not any("nowhere" in line for line in lines)


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
        assert f"group a {said}" in told(tmp_path, text)
        warning = "warning a: sessions may be on different brokers"
        warned = any(line.startswith(warning) for line in told(tmp_path, text))
        assert warned is (policy != "together")
        assert not any(line.startswith("warning") for line in told(tmp_path, f"{text}connected = true\n"))


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
    lines = told(tmp_path, JOURNAL)
    assert lines[lines.index("journal") : lines.index("relay")] == [
        "journal",
        "directory /var/lib/j",
        "relay eu-1",
        "segment_size 67108864",
        "segment_age 60",
        "queue 67108864",
        "when_full block",
        "flush_interval 0.2",
        "sync_interval 0",
        "bodies 256",
        "redact token",
        "retain_age 60",
        "retain_size 1000",
        'capture all of "/queue/*"',
    ]
    assert "bodies none" in told(tmp_path, "[journal]\ndirectory = '/j'\n")
