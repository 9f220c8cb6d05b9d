"""`config/stomprelay.toml` and `docs/settings.md` hold every setting of the code, with its default; the scenes run."""

import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from stomprelay.auth.settings import AuthService, AuthSettings, BrokerLogin
from stomprelay.auth.tokens import Tokens
from stomprelay.config import Config, ConfigError, default, listener, load
from stomprelay.config.settings import SETTINGS
from stomprelay.journal.settings import ALL, BodyRule
from stomprelay.relay.model.listener import Web
from stomprelay.relay.model.rates import Rates
from tests.config.reference import FILE, PAGE, ROOT, everything, page, put_secrets, settings

SCENES = sorted((ROOT / "config").glob("*.toml"))


def keys() -> set[str]:
    """Every key that the code takes."""
    found = {f"{table}.{key}".removeprefix(".") for table, rows in SETTINGS.items() for key in rows}
    return {key for key in found if SETTINGS.keys().isdisjoint((key, f"{key}.NAME", f"{key}[N]"))}


def told(config: Config) -> list[Any]:
    """A configuration to compare: groups and brokers by what they are."""
    listeners = []
    for each in config.listeners:
        facts = {field.name: getattr(each, field.name) for field in fields(each)}
        facts["upstream"] = {
            field.name: getattr(each.upstream, field.name) for field in fields(each.upstream)
        } | {"groups": [(group.name, group.reconnect, group.policy) for group in each.upstream.groups]}
        facts["brokers"] = [
            (broker.uri, broker.endpoint, broker.host, broker.tls, broker.weight)
            for broker in each.upstream.brokers
        ]
        listeners.append(facts)
    doors = [config.admin, config.admin_token, config.admin_tls, config.metrics]
    return [listeners, doors, asdict(config.broker), config.journal]


def test_the_file_has_every_setting_once() -> None:
    """A setting of the code is in the file, and the other way round; each with a sentence at least."""
    found = [setting.key for setting in settings()]
    assert len(found) == len(set(found))
    assert set(found) == keys()
    for setting in settings():
        assert setting.meaning.endswith((".", "...", "?")), setting.key


def test_the_defaults_are_those_of_the_code() -> None:
    """The file as it stands changes nothing."""
    assert told(load(str(FILE))) == told(default())


def test_the_defaults_in_words_are_those_of_the_code() -> None:
    """A setting that is absent by default, and has a value all the same, says which."""
    owners = {
        "listener.NAME.limits.": Rates,
        "listener.NAME.limits.address.": Rates,
        "listener.NAME.limits.user.": Rates,
        "listener.NAME.web.": Web,
        "auth.NAME.": AuthSettings,
        "auth.NAME.token.": Tokens,
        "auth.NAME.service.": AuthService,
    }
    said = {setting.key: setting.meaning for setting in settings()}
    defaults = {
        table + field.name: field.default.value if isinstance(field.default, BrokerLogin) else field.default
        for table, owner in owners.items()
        for field in fields(owner)
        if isinstance(field.default, int | float | str | BrokerLogin) and not isinstance(field.default, bool)
    }
    assert len(defaults) == 13
    for key, value in defaults.items():
        assert said[key].endswith(f"Absent: {str(value).removesuffix('.0')}."), key


def test_every_setting_is_taken(tmp_path: Path) -> None:
    """With nothing commented out the file loads, and each setting that is absent by default changes something."""
    put_secrets(tmp_path)
    file = tmp_path / "stomprelay.toml"
    file.write_text(everything(), encoding="utf-8")
    found = load(str(file))
    assert found.journal.directory == str(tmp_path / "journal")
    assert None not in asdict(found.journal).values()
    assert found.journal.rules == (BodyRule("/queue/orders.*", ALL),)
    [listener] = found.listeners
    assert listener.tls is not None
    assert listener.tls.require_client_certificate
    assert None not in asdict(listener.rates.listener).values()
    assert None not in asdict(listener.rates.address).values()
    assert None not in asdict(listener.rates.user).values()
    assert listener.clients_per_user == 10
    assert listener.web == Web("/stomp", ("https://app.example.net",), 60.0, 1048576, True)
    assert None not in asdict(listener.upstream.tls).values()
    assert None not in (listener.upstream.host, listener.upstream.versions, listener.upstream.connect_escape)
    assert listener.upstream.credentials is not None
    assert listener.upstream.credentials.passcode == b"x"
    assert listener.upstream.checks.destination == "/queue/relay.canary"
    assert (found.metrics, found.admin_token) == ("tcp:61681", b"0123456789abcdef")
    assert found.admin_tls is not None
    assert None not in asdict(found.admin_tls).values()
    [access] = found.auths
    assert (listener.auth, access.certificates, access.broker) == ("default", True, BrokerLogin.LOGIN)
    assert None not in (access.users, access.tokens, access.service, access.logins.get("alice"))
    assert access.tokens is not None
    assert (access.tokens.issuer, access.tokens.leeway) == ("https://login.example.net", 30.0)


@pytest.mark.parametrize("pattern", listener.PATTERNS)
def test_every_pattern_of_a_route_is_taken(tmp_path: Path, pattern: str) -> None:
    """A route has one; the file shows all."""
    put_secrets(tmp_path)
    file = tmp_path / "stomprelay.toml"
    file.write_text(everything(pattern), encoding="utf-8")
    [listener] = load(str(file)).listeners
    route, move = listener.routes
    assert route.match.value == move.match.value == pattern
    assert route.upstream is move.upstream is listener.upstream
    assert (route.move, move.move and move.move.name) == (None, "default")


@pytest.mark.parametrize("key", sorted({setting.key.rpartition(".")[2] for setting in settings()}))
def test_every_setting_is_checked(tmp_path: Path, key: str) -> None:
    """A value that nothing can be, a date, is refused by the key's name."""
    put_secrets(tmp_path)
    text = everything(key) if key in listener.PATTERNS else everything()
    text = re.sub(rf"^{key} = .*$", f"{key} = 2000-01-01", text, flags=re.MULTILINE)
    if key == "passcode":
        text = re.sub(r"^passcode_file = .*$", "passcode = 2000-01-01", text, flags=re.MULTILINE)
    file = tmp_path / "stomprelay.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"\b{key}: (must be|no upstream)"):
        load(str(file))


def test_the_page_has_the_same_settings() -> None:
    """docs/settings.md has what `python -m tests.config.reference` writes."""
    assert PAGE.read_text(encoding="utf-8").endswith(page())


@pytest.mark.parametrize("file", SCENES, ids=lambda file: file.stem)
def test_every_scene_loads(tmp_path: Path, file: Path) -> None:
    """A file that we hand out is right as it is, beside the files that it names."""
    put_secrets(tmp_path)
    copy = tmp_path / file.name
    copy.write_bytes(file.read_bytes())
    assert load(str(copy)).listeners
