"""`config/stomprelay.toml` as data: its settings, what each means, and how the default is written."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.auth.issuing import ISSUER, USERS, public_pem

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "config" / "stomprelay.toml"
TEXT = FILE.read_text(encoding="utf-8")

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
    found = []
    table = ""
    meaning: list[str] = []
    for line in TEXT.splitlines():
        if match := _TABLE.fullmatch(line):
            table = re.sub(r"^\[(.+)\]$", r"\1[N]", match[1]).replace(".default", ".NAME") + "."
        elif match := _SETTING.fullmatch(line):
            absent, key, value = match.groups()
            found.append(Setting(table + key, " ".join(meaning), None if absent else value, value))
        elif line.startswith("# "):
            meaning.append(line[2:])
            continue
        meaning = []
    return found


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
