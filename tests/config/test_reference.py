"""`config/stomprelay.toml` and the README hold every setting of the code, with its default; the scenes run."""

import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from stomprelay.broker.bounds import Bounds
from stomprelay.config import Config, ConfigError, default, leg, listener, load, upstream
from stomprelay.config import config as whole
from tests.config.reference import FILE, ROOT, everything, settings

SCENES = sorted((ROOT / "config").glob("*.toml"))


def keys() -> set[str]:
    """Every key that the code takes."""
    tables = {
        "": [key for key in whole.KEYS if key not in ("listener", "upstream", "broker")],
        "listener.NAME.": [key for key in listener.KEYS if key not in ("limits", "tls")],
        "listener.NAME.limits.": listener.LIMIT_KEYS,
        "listener.NAME.tls.": listener.TLS_KEYS,
        "upstream.NAME.": [key for key in upstream.KEYS if key not in ("limits", "tls")],
        "upstream.NAME.limits.": leg.LIMITS,
        "upstream.NAME.tls.": upstream.TLS_KEYS,
        "broker.": [field.name for field in fields(Bounds)],
    }
    return {table + key for table, names in tables.items() for key in names}


def told(config: Config) -> list[Any]:
    """A configuration to compare: brokers by what they are."""
    listeners = []
    for each in config.listeners:
        broker = each.upstream.broker
        facts = {field.name: getattr(each, field.name) for field in fields(each)}
        facts["upstream"] = {
            field.name: getattr(each.upstream, field.name) for field in fields(each.upstream)
        } | {"broker": (broker.uri, broker.endpoint, broker.host, broker.tls)}
        listeners.append(facts)
    return [listeners, config.admin, asdict(config.broker)]


def test_the_file_has_every_setting_once() -> None:
    """A setting of the code that is not in the file, or the other way round, is a mistake."""
    found = [setting.key for setting in settings()]
    assert len(found) == len(set(found))
    assert set(found) == keys()


def test_every_setting_says_what_it_means() -> None:
    """One sentence at least, and what absence means where that is the default."""
    for setting in settings():
        assert setting.meaning.endswith((".", "...", "?")), setting.key


def test_the_defaults_are_those_of_the_code() -> None:
    """The file as it stands changes nothing."""
    assert told(load(str(FILE))) == told(default())


def test_every_setting_is_taken(tmp_path: Path) -> None:
    """With nothing commented out the file loads, and each setting that is absent by default changes something."""
    (tmp_path / "broker.passcode").write_bytes(b"x\n")
    file = tmp_path / "stomprelay.toml"
    file.write_text(everything(), encoding="utf-8")
    [listener] = load(str(file)).listeners
    assert listener.tls is not None
    assert listener.tls.require_client_certificate
    assert None not in asdict(listener.upstream.tls).values()
    assert None not in (listener.upstream.host, listener.upstream.versions, listener.upstream.connect_escape)
    assert listener.upstream.credentials is not None
    assert listener.upstream.credentials.passcode == b"x"


@pytest.mark.parametrize("key", sorted({setting.key.rpartition(".")[2] for setting in settings()}))
def test_every_setting_is_checked(tmp_path: Path, key: str) -> None:
    """A value that nothing can be, a date, is refused by the key's name."""
    (tmp_path / "broker.passcode").write_bytes(b"x\n")
    text = re.sub(rf"^{key} = .*$", f"{key} = 2000-01-01", everything(), flags=re.MULTILINE)
    if key == "passcode":
        text = re.sub(r"^passcode_file = .*$", "passcode = 2000-01-01", text, flags=re.MULTILINE)
    file = tmp_path / "stomprelay.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"\b{key}: (must be|no upstream)"):
        load(str(file))


def test_the_readme_has_the_same_settings() -> None:
    """The table of the README is the file's: setting, meaning and default, in the file's order."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    region = readme.partition("<!-- settings:begin -->")[2].partition("<!-- settings:end -->")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in region.splitlines()
        if line.startswith("| `")
    ]
    options = {
        "admin": "`--admin`",
        "listener.NAME.endpoint": "`-l`, `--listen`",
        "upstream.NAME.uri": "`-u`, `--upstream`",
    }
    assert rows == [
        [
            f"`{setting.key}`",
            setting.meaning,
            "absent" if setting.default is None else f"`{setting.default}`",
            options.get(setting.key, ""),
        ]
        for setting in settings()
    ]


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_every_sample_of_the_documentation_loads(tmp_path: Path, page: str) -> None:
    """What a page shows as TOML is a configuration."""
    (tmp_path / "broker.passcode").write_bytes(b"x\n")
    samples = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert samples
    for sample in samples:
        file = tmp_path / "sample.toml"
        text = re.sub(
            r"^passcode_file = .*$", 'passcode_file = "broker.passcode"', sample, flags=re.MULTILINE
        )
        file.write_text(text, encoding="utf-8")
        assert load(str(file)).listeners


@pytest.mark.parametrize("file", SCENES, ids=lambda file: file.stem)
def test_every_scene_loads(file: Path) -> None:
    """A file that we hand out is right as it is."""
    assert load(str(file)).listeners


def test_old_clients_before_a_new_broker() -> None:
    """1.0 in front, 1.2 behind, verified TLS to a RabbitMQ."""
    [listener] = load(str(ROOT / "config" / "gateway-old-clients.toml")).listeners
    assert listener.versions == {b"1.0"}
    assert set(listener.upstream.versions or ()) == {b"1.2"}
    assert listener.upstream.profile.name == "rabbitmq"
    assert listener.upstream.broker.tls


def test_new_clients_before_an_old_broker() -> None:
    """Nothing but 1.0 behind, and nothing changed silently."""
    [listener] = load(str(ROOT / "config" / "gateway-old-broker.toml")).listeners
    assert listener.versions == {b"1.1", b"1.2"}
    assert set(listener.upstream.versions or ()) == {b"1.0"}
    assert listener.loss.value == "reject"
