"""`config/stomprelay.toml` as data: its settings, what each means, and how the default is written.

`python -m tests.config.reference` writes the tables of `docs/settings.md` from it, and from the rows of the code.
"""

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from stomprelay.config import Config, ConfigError, load
from stomprelay.config.settings import takes
from tests.auth.issuing import ISSUER, USERS, public_pem

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "config" / "stomprelay.toml"
TEXT = FILE.read_text(encoding="utf-8")
PAGE = ROOT / "docs" / "settings.md"
OPTIONS = {
    "admin": "`--admin`",
    "listener.NAME.endpoint": "`-l`, `--listen`",
    "upstream.NAME.uri": "`-u`, `--upstream`",
    "journal.directory": "`--journal`",
    "workers": "`--workers`",
    "log_level": "`--log-level`",
}
"""Options of the command line that win over a setting."""

_TABLE = re.compile(r"#?\[(.+)\]")
_SETTING = re.compile(r"(#?)([a-z_0-9]+) = (.+)")


class Setting(NamedTuple):
    """One line of the file. `key` has NAME where a user puts a name, and [N] for a place in an array; `default` is None
    where it is to be absent.
    """

    key: str
    meaning: str
    default: str | None
    example: str


def settings() -> list[Setting]:
    """Every setting, in the file's order."""
    return [each for _, _, found in tables() for each in found]


def tables() -> list[tuple[str, str, list[Setting]]]:
    """Every table that has settings, in the file's order: its header, with NAME, what it means, and its settings."""
    found: list[Setting] = []
    every = [("", "", found)]
    table = ""
    meaning: list[str] = []
    for line in TEXT.splitlines():
        if match := _TABLE.fullmatch(line):
            table = re.sub(r"^\[(.+)\]$", r"\1[N]", match[1]).replace(".default", ".NAME") + "."
            found = []
            every.append((f"[{match[1]}]".replace(".default", ".NAME"), " ".join(meaning), found))
        elif match := _SETTING.fullmatch(line):
            absent, key, value = match.groups()
            found.append(Setting(table + key, " ".join(meaning), None if absent else value, value))
        elif line.startswith("# "):
            meaning.append(line[2:])
            continue
        meaning = []
    return every


def page() -> str:
    """The tables of `docs/settings.md`, from the first heading on."""
    lines = []
    for header, meaning, found in tables():
        lines += ["", f"## `{header}`" if header else "## Before the first table"]
        lines += ["", meaning] if meaning else []
        lines += ["", "| setting | default | takes effect | meaning |", "|---|---|---|---|"]
        for each in found:
            default = "absent" if each.default is None else f"`{each.default}`"
            option = f" Option: {OPTIONS[each.key]}." if each.key in OPTIONS else ""
            name = f'<a id="{each.key}"></a>`{each.key.rpartition(".")[2]}`'
            lines.append(f"| {name} | {default} | {takes(each.key).value} | {each.meaning}{option} |")
    return "\n".join(lines) + "\n"


def put_secrets(folder: Path) -> None:
    """Write the files with secrets that the file and the samples of the documentation name, users and keys."""
    (folder / "broker.passcode").write_bytes(b"x\n")
    token = folder / "admin.token"
    token.write_bytes(b"0123456789abcdef\n")
    token.chmod(0o600)
    for name, content in (
        ("users", USERS),
        ("logins", b"alice:app1:x\n"),
        ("issuer.pem", public_pem(ISSUER)),
    ):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


def everything(pattern: str = "destination") -> str:
    """The file with every setting in force, except `passcode`, which excludes `passcode_file`, and but one pattern for
    the route.
    """
    text = re.sub(r"^#(\[|[a-z_0-9]+ = )", r"\1", TEXT, flags=re.MULTILINE)
    text = re.sub(r"^passcode = .*\n", "", text, flags=re.MULTILINE)
    text, route, rest = text.partition("[[route]]")
    rest, broker, behind = rest.partition("[broker]")
    others = "|".join({"destination", "prefix", "glob"} - {pattern})
    rest = re.sub(rf"^({others}) = .*\n", "", rest, flags=re.MULTILINE) + broker + behind
    text = text.replace("probe = 0.0", "probe = 5.0")
    text = text.replace('uri = "memory:"', 'uri = "failover:(ssl://broker.example.net)"')
    return text + route + rest


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition("\n## ")[0] + page(), encoding="utf-8")


def config(folder: Path, *parts: str) -> Config:
    """The configuration of a file with these parts."""
    file = folder / "relay.toml"
    file.write_text("".join(parts), encoding="utf-8")
    return load(str(file))


def refusal(folder: Path, *parts: str) -> str:
    """What is said about such a file, without its name."""
    with pytest.raises(ConfigError) as error:
        config(folder, *parts)
    source, _, said = str(error.value).partition(": ")
    assert source == str(folder / "relay.toml")
    assert "\n" not in said
    return said


def refuses(said: str) -> AbstractContextManager[object]:
    """What ends in an error that says this."""
    return pytest.raises(ConfigError, match=said)
