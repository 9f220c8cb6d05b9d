"""`[auth.NAME]`: what it may say, what is wrong with it, and what becomes of that while the relay runs."""

import re
import sys
from pathlib import Path

import pytest

from stomprelay.auth.settings import AuthService, BrokerLogin, Method
from stomprelay.config import ConfigError, overridden
from stomprelay.config.change import change
from stomprelay.config.summary import summary
from stomprelay.relay.model.rules import Claim
from tests.auth.issuing import token
from tests.config.reference import config, put_secrets, refusal

LISTENER = '[listener.main]\nauth = "people"\n'
TLS = '[listener.main.tls]\ncertificate = "c"\nkey = "k"\nclient_ca = "a"\n'
BROKER = '[upstream.main]\nuri = "tcp://b"\nlogin = "relay"\npasscode = "hidden"\n'
TOKEN = '[auth.people.token]\nkeys = "issuer.pem"\nalgorithms = "ES256"\naudience = "stomprelay"\n'
SERVICE = '[auth.people.service]\nurl = "https://auth.example.net/x"\n'
PEOPLE = '[auth.people]\nusers = "users"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with users, logins, and the issuer's key."""
    put_secrets(tmp_path)
    return tmp_path


def test_every_default(folder: Path) -> None:
    """Of the settings of each method."""
    [auth] = config(folder, LISTENER, BROKER, PEOPLE, TOKEN, SERVICE).auths
    assert (auth.name, auth.certificates, auth.broker, auth.logins) == (
        "people",
        False,
        BrokerLogin.LOGIN,
        {},
    )
    assert auth.service == AuthService("https://auth.example.net/x", 3.0, 0.0, 10_000)
    assert auth.users is not None
    found = auth.tokens
    assert found is not None
    assert (found.audience, found.issuer, found.leeway) == (("stomprelay",), None, 10.0)
    assert (found.user, found.groups) == ("sub", "groups")


def test_a_token_that_is_shown_later(folder: Path) -> None:
    """Clients of the listener show it there; the journal then has no `passcode`, whatever `redact` says."""
    journal = '[journal]\nredact = ["colour"]\n'
    never = config(folder, LISTENER, BROKER, PEOPLE, TOKEN, journal)
    assert (never.listeners[0].renew, never.journal.redact) == (None, ("colour",))
    found = config(folder, LISTENER, BROKER, PEOPLE, TOKEN, 'renew = "/relay/token"\n', journal)
    assert (found.listeners[0].renew, found.journal.redact) == (b"/relay/token", ("colour", "passcode"))


WRONG = [
    ([LISTENER, BROKER], r'^listener.main.auth: no auth is called "people"; there is none$'),
    ([LISTENER, BROKER, "[auth.people]\n"], r"^auth.people: lets nobody in; say by what .* users, certificates"),
    ([LISTENER, BROKER, "[auth.people]\ncertificates = false\n"], r"^auth.people: lets nobody in"),
    ([LISTENER, BROKER, PEOPLE, "user = 1\n"], r'^auth.people.user: unknown key; did you mean "users"'),
    ([LISTENER, BROKER, '[auth.people]\nusers = "nobody"\n'], r"^auth.people.users: .*nobody cannot be read: No"),
    ([LISTENER, BROKER, '[auth.people]\nusers = "issuer.pem"\n'], r"^auth.people.users: .*line 1 has 1 fields"),
    ([LISTENER, BROKER, PEOPLE, 'broker = "me"\n'], r"^auth.people.broker: must be one of login, user, client"),
    ([LISTENER, BROKER, PEOPLE, 'logins = "issuer.pem"\n'], r"^auth.people.logins: .*issuer.pem: line 1 has 1 f"),
    ([LISTENER, BROKER, "[auth.people]\ncertificates = true\n"], r"certificates needs listener.main.tls.client_ca"),
    ([LISTENER, PEOPLE, '[upstream.main]\nuri = "tcp://b"\n'], r"^auth.people.broker: upstream.main has no login"),
    ([LISTENER, BROKER, "[auth.people.token]\n"], r"^auth.people.token.keys: is missing"),
    ([LISTENER, BROKER, TOKEN.replace("issuer.pem", "users")], r"^auth.people.token.keys: .*neither PEM nor a JWKS"),
    ([LISTENER, BROKER, TOKEN.replace("ES256", "none")], r'algorithms: "none" is none of RS256'),
    ([LISTENER, BROKER, TOKEN.replace("ES256", "HS256")], r"algorithms: no key in keys is for HS256, but for ES256"),
    ([LISTENER, BROKER, TOKEN.replace('"ES256"', "[]")], r"algorithms: must be a string that is not empty, or a list"),
    ([LISTENER, BROKER, TOKEN.replace('audience = "stomprelay"\n', "")], r"^auth.people.token.audience: is missing"),
    ([LISTENER, BROKER, TOKEN, "leeway = -1\n"], r"^auth.people.token.leeway: must be a number of seconds"),
    ([LISTENER, BROKER, TOKEN, "kid = 1\n"], r"^auth.people.token.kid: unknown key"),
    ([LISTENER, BROKER, "[auth.people.service]\n"], r"^auth.people.service.url: is missing"),
    ([LISTENER, BROKER, SERVICE, "retries = 1\n"], r"^auth.people.service.retries: unknown key"),
    ([LISTENER, BROKER, SERVICE, "timeout = 0\n"], r"^auth.people.service.timeout: must be a positive"),
    ([LISTENER, BROKER, SERVICE, "cache_entries = 0\n"], r"^auth.people.service.cache_entries: must be a positive"),
    ([LISTENER, BROKER, '[auth."a b"]\nusers = "users"\n'], r'^auth."a b": a name is made of letters'),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "why"), WRONG)
def test_a_mistake(folder: Path, parts: list[str], why: str) -> None:
    """It is told by its key, and no secret is."""
    found = refusal(folder, *parts)
    assert re.search(why, found), found
    assert "hidden" not in found


@pytest.mark.parametrize(
    "url",
    [
        *("auth.example.net", "ftp://auth.example.net", "http://auth.example.net/", "http://192.0.2.1/"),
        *("https://", "https://u:p@auth.example.net", "https://auth.example.net/?key=hidden"),
        *("https://auth.example.net/#x", "https://auth.example.net:99999/", "https://auth.example.net/a b"),
        *("https://[::1/", "https://ä/"),
    ],
)
def test_where_no_service_is(folder: Path, url: str) -> None:
    """It is told passcodes, so nobody may read them on the way; and its URL is shown, so it has no secret."""
    found = refusal(folder, LISTENER, BROKER, SERVICE.replace("https://auth.example.net/x", url))
    assert found.startswith("auth.people.service.url: must be")
    assert "hidden" not in found


def test_a_file_that_everybody_may_read(folder: Path) -> None:
    """Hashes are for the relay alone."""
    (folder / "users").chmod(0o644)
    assert "its mode is 644: chmod 600 it" in refusal(folder, LISTENER, BROKER, PEOPLE)


@pytest.mark.parametrize(("module", "key"), [("argon2", "users"), ("jwt", "token")])
def test_an_absent_package(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, key: str) -> None:
    """What to install is told."""
    for name in [each for each in sys.modules if each.startswith("stomprelay.auth.")]:
        if name.rpartition(".")[2] in ("users", "keys", "tokens"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    parts = {"users": PEOPLE, "token": TOKEN}[key]
    assert refusal(folder, LISTENER, BROKER, parts) == (
        f"auth.people.{key}: needs {module}: pip install argon2-cffi pyjwt"
    )


def test_the_command_line_cannot_lead_elsewhere(folder: Path) -> None:
    """From the embedded broker to one that would be told passcodes."""
    found = config(folder, LISTENER, PEOPLE)
    with pytest.raises(ConfigError, match=r"auth\.people\.broker: upstream\.default has no login"):
        overridden(found, upstream="tcp://b")


def test_the_order_of_the_methods(folder: Path) -> None:
    """Certificate, token, passcode of a user in the file, service: the first for which something is offered."""
    whole = config(folder, LISTENER, BROKER, TLS, PEOPLE, "certificates = true\n", TOKEN, SERVICE).auths[0]
    alice, other, jwt = Claim(b"alice", b"x"), Claim(b"dave", b"x"), Claim(b"alice", token())
    assert whole.method(jwt, "cn") is Method.CERTIFICATE
    assert whole.method(jwt, "") is Method.TOKEN
    assert whole.method(alice, "") is Method.PASSCODE
    assert whole.method(other, "") is Method.SERVICE
    assert whole.method(Claim(b"\xff", b"x"), "") is Method.SERVICE
    assert whole.method(Claim(None, None), "") is None
    users = config(folder, LISTENER, BROKER, PEOPLE).auths[0]
    assert users.method(other, "cn") is Method.PASSCODE
    assert users.method(jwt, "") is Method.PASSCODE
    assert users.method(Claim(None, None), "cn") is None
    service = config(folder, LISTENER, BROKER, SERVICE).auths[0]
    assert service.method(jwt, "") is Method.SERVICE
    assert service.method(Claim(None, None), "") is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"people"', '"others"', ["listener.main.auth", "auth.others added", "auth.people removed"]),
        ("leeway = 1", "leeway = 2", ["auth.people.token.leeway"]),
        ("/x", "/y", ["auth.people.service.url"]),
        ('"ES256"', '["ES256"]', []),
        ("[auth.people]", '[auth.people]\nbroker = "user"', ["auth.people.broker"]),
        ("[auth.people]", '[auth.people]\nlogins = "logins"', ["auth.people.logins"]),
    ],
)
def test_what_is_said_of_a_change(folder: Path, old: str, new: str, expected: list[str]) -> None:
    """Keys, and no values."""
    text = LISTENER + BROKER + PEOPLE + TOKEN + "leeway = 1\n" + SERVICE
    replaced = text.replace(old, new).replace(
        "auth.people", "auth.others" if '"others"' in new else "auth.people"
    )
    found = change("f", config(folder, text), config(folder, replaced))
    assert sorted(found.changed) == sorted(expected)
    assert found.restart == ()


def test_in_words(folder: Path) -> None:
    """Who decides, for each listener, and nothing of what is secret."""
    text = LISTENER + BROKER + TLS + PEOPLE + 'certificates = true\nlogins = "logins"\n' + TOKEN + SERVICE
    told = summary(config(folder, text))
    lines = [" ".join(line.split()) for line in told.splitlines()]
    ways = (
        "users 3",
        "certificates true",
        "algorithms ES256",
        "audience stomprelay",
        "url https://auth.example.net/x",
    )
    for line in ("auth people", *ways, "broker login", "logins of 1 users"):
        assert line in lines
    assert "hidden" not in told
    assert "argon2id" not in told + repr(config(folder, text))
    assert "the brokers decide" in summary(config(folder, BROKER))
