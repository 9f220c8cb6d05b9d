"""The keys of `admin` and `metrics`: who may reach them, and what who asks has to have."""

import re
from pathlib import Path

import pytest

from stomprelay.config import default, load_admin, overridden
from stomprelay.config.address import exposed
from stomprelay.config.admin import SHORTEST, token_content
from stomprelay.config.summary import summary
from stomprelay.config.table import read_file
from tests.config.reference import config, refusal, refuses

TOKEN = "0123456789abcdef"
CERTIFIED = """
[admin_tls]
certificate = "admin.pem"
key = "admin.key"
client_ca = "operators.pem"
require_client_certificate = true
"""


def put_token(folder: Path, content: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    """A file with this content and this mode."""
    file = folder / "token"
    file.write_text(content)
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    ("place", "others"),
    [
        ("tcp:61680", True),
        ("tcp:61680:interface=10.0.0.5", True),
        ("tcp:61680:interface=0.0.0.0", True),
        ("tcp:61680:interface=relay.example.net", True),
        (r"tcp6:61680:interface=\:\:", True),
        ("ssl:61680:privateKey=k", True),
        ("haproxy:tcp:61680:interface=127.0.0.1", True),
        ("haproxy:unix:/run/admin", True),
        ("systemd:domain=INET:index=0", True),
        ("systemd:domain=INET6:name=admin", True),
        ("onion:80:domain=UNIX", True),
        ("systemd:domain=UNIX:index=0", False),
        ("tcp:61680:interface=127.0.0.1", False),
        ("tcp:61680:interface=127.9.9.9", False),
        ("tcp:61680:interface=LocalHost", False),
        (r"tcp6:61680:interface=\:\:1", False),
        ("unix:/run/admin", False),
    ],
)
def test_an_endpoint_that_others_reach_needs_something(tmp_path: Path, place: str, others: bool) -> None:
    """A token or client certificates; what is not known to be ours alone may be reached by others."""
    assert exposed(place) is others
    quoted = place.replace("\\", "\\\\")
    if others:
        said = refusal(tmp_path, f'admin = "{quoted}"\n')
        assert said.startswith("admin: other machines may reach it")
        assert "set admin_token_file" in said
        with refuses(r"^command line: --admin: other machines may reach it"):
            overridden(default(), admin=place)
    else:
        assert (
            config(tmp_path, f'admin = "{quoted}"\n').admin
            == overridden(default(), admin=place).admin
            == place
        )
    put_token(tmp_path)
    with_token = config(tmp_path, f'admin = "{quoted}"\nadmin_token_file = "token"\n')
    assert (with_token.admin, with_token.admin_token) == (place, TOKEN.encode())
    assert config(tmp_path, f'metrics = "{quoted}"\n').metrics == place


def test_a_console_needs_something_everywhere(tmp_path: Path) -> None:
    """It is a way in at the listeners: not every user of the machine may have it. Workers have none."""
    put_token(tmp_path)
    console = "admin_console = true\n"
    local = 'admin = "tcp:1:interface=127.0.0.1"\n'
    said = refusal(tmp_path, console + local)
    assert said.startswith(
        "admin: admin_console = true lets whoever asks it in at the listeners: set admin_token_file"
    )
    with refuses(r"^command line: --admin: admin_console = true lets"):
        overridden(config(tmp_path, console), admin="unix:/run/admin")
    for enough in (
        'admin = "unix:/run/admin:mode=600"\n',
        local + CERTIFIED,
        local + 'admin_token_file = "token"\n',
    ):
        found = config(tmp_path, console + enough)
        assert found.admin_console
        assert re.search(r"admin_console +true", summary(found))
    assert re.search(r"admin_console +false", summary(config(tmp_path, local)))
    upstream = '[upstream.main]\nuri = "tcp://127.0.0.1:1"\n'
    guarded = config(tmp_path, f'{console}{local}admin_token_file = "token"\n{upstream}')
    with refuses(r": admin_console: the console needs workers = 1"):
        overridden(guarded, workers="2")


def test_the_command_line_and_the_token_of_the_file(tmp_path: Path) -> None:
    """An endpoint of the command line has the file's token, or its certificates."""
    put_token(tmp_path)
    found = overridden(config(tmp_path, 'admin_token_file = "token"\n'), admin="tcp:1")
    assert (found.admin, found.admin_token) == ("tcp:1", TOKEN.encode())
    certified = config(tmp_path, CERTIFIED)
    assert overridden(certified, admin="tcp:1").admin == "tcp:1"
    with refuses(r"^command line: --admin: ssl:1:privateKey=k brings TLS of its own"):
        overridden(certified, admin="ssl:1:privateKey=k")
    with refuses(r"^command line: --admin: a UNIX socket has no use for admin_tls"):
        overridden(certified, admin="unix:/a")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('admin = "ssl:1:privateKey=k"\n' + CERTIFIED, "admin_tls: the endpoint brings TLS of its own"),
        ('admin = "unix:/a"\n' + CERTIFIED, "admin: a UNIX socket has no use for admin_tls"),
        ("[admin_tls]\n", "admin_tls.certificate: is missing"),
        ('[admin_tls]\ncertificate = "c"\n', "admin_tls.key: is missing"),
        ('[admin_tls]\ncertifcate = "c"\n', 'admin_tls.certifcate: unknown key; did you mean "certificate"?'),
        (CERTIFIED.replace("client_ca", "#"), "admin_tls.require_client_certificate: needs client_ca"),
        ("admin_tls = 5\n", "admin_tls: must be a table"),
        ('admin_token_file = ""\n', "admin_token_file: must be a string that is not empty"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, said: str) -> None:
    """Each by its key."""
    assert refusal(tmp_path, text).startswith(said)


# The token


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o666, 0o777])
def test_a_token_that_everybody_may_read(tmp_path: Path, mode: int) -> None:
    """Or write: it is none, in words with the key, the file and its mode, and unseen."""
    file = put_token(tmp_path, mode=mode)
    said = refusal(tmp_path, 'admin_token_file = "token"\n')
    assert said == (
        f"admin_token_file: {file}: every user may read or write it, for its mode is {mode:o}: chmod 600 it"
    )
    with refuses(r"relay\.toml: admin_token_file: .* its mode is"):
        load_admin(str(tmp_path / "relay.toml"))


@pytest.mark.parametrize("content", [TOKEN, TOKEN + "\n", TOKEN + "\r\n", "A-Za-z0-9._~+/=" + TOKEN])
def test_what_a_token_may_be(tmp_path: Path, content: str) -> None:
    """What `Authorization` can say, with or without a line end."""
    assert read_file(str(put_token(tmp_path, content)), token_content) == content.strip().encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must hold a token in one line"),
        ("\n", "must hold a token in one line"),
        (TOKEN + "\n\n", "must hold a token in one line"),
        (TOKEN + "\n" + TOKEN, "must hold a token in one line"),
        (f" {TOKEN}", "must hold a token in one line"),
        (TOKEN + "\0", "must hold a token in one line"),
        ("pässword-geheim-geheim", "must hold a token in one line"),
        ("g" * (SHORTEST - 1), "must hold a token of at least 16 characters"),
        ("geheim" * 20_000, "is larger than 65536 bytes"),
    ],
)
def test_what_is_no_token(tmp_path: Path, content: str, said: str) -> None:
    """The error does not show it."""
    file = put_token(tmp_path, content)
    text = refusal(tmp_path, 'admin_token_file = "token"\n')
    assert text.startswith(f"admin_token_file: {file}")
    assert said in text
    assert "geheim" not in text
    assert TOKEN not in text


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    """In no representation, and not in the summary."""
    put_token(tmp_path)
    found = config(tmp_path, 'admin = "tcp:1"\nadmin_token_file = "token"\n')
    for text in (repr(found), summary(found), repr(load_admin(str(tmp_path / "relay.toml")))):
        assert TOKEN not in text
        assert "tcp:1" in text


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ('admin = "tcp:1"\n', True),
        ('admin = "haproxy:tcp:1"\n', True),
        ('admin = "tcp:1:interface=127.0.0.1"\n', False),
        ('admin = "unix:/a"\n', False),
        ('admin = "ssl:1:privateKey=k"\n', False),
        ('admin = "tcp:1"\n[admin_tls]\ncertificate = "c"\nkey = "k"\n', False),
    ],
)
def test_a_token_that_is_read_on_the_way(tmp_path: Path, text: str, warned: bool) -> None:
    """Is warned of where others are on the way and there is no TLS."""
    put_token(tmp_path)
    found = summary(config(tmp_path, 'admin_token_file = "token"\n' + text))
    assert ("whoever is on the way can read the token" in found) is warned
