"""The setting `admin`: an endpoint, and who may use it. The endpoint accepts commands, so it needs protection if other
machines can reach it.
"""

import re
from typing import Final, NamedTuple

from stomprelay.auth.lines import OTHERS, private
from stomprelay.config.address import exposed, server, server_endpoint
from stomprelay.config.listener import read_tls
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.config.values import flag, text
from stomprelay.relay.model.listener import ServerTLS

KEYS: Final = frozenset({"admin", "admin_token_file", "admin_tls", "admin_console"})
"""The keys that decide about the access to the admin endpoint."""

SHORTEST: Final = 16
"""The least number of characters of a token. A shorter token could be guessed."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/=-]+")
_OCTAL: Final = re.compile("[0-7]+")

_UNGUARDED: Final = (
    "other machines may reach it, and whoever does could pause brokers and end sessions: bind it to the loopback "
    "interface (interface=127.0.0.1) or to a UNIX socket, or set admin_token_file, or admin_tls with "
    "require_client_certificate = true"
)
_OPEN: Final = (
    "admin_console = true lets whoever asks it in at the listeners: set admin_token_file, or admin_tls with "
    "require_client_certificate = true, or let it listen on a UNIX socket with mode=600"
)
UNENCRYPTED: Final = "other machines may reach it without TLS, and whoever is on the way can read the token"
"""The warning that a token passes through the network unencrypted on its way to the admin endpoint."""


class AdminAccess(NamedTuple):
    """The access to the admin endpoint: its address (or None), its token, its TLS, and whether it has the console."""

    endpoint: str | None
    token: bytes | None
    tls: ServerTLS | None
    console: bool = False

    def __repr__(self) -> str:
        return f"AdminAccess({self.endpoint!r})"


def read(table: ConfigTable) -> AdminAccess:
    """Return the access to the admin endpoint in a file, with the token from its own file. Raises `ConfigError`."""
    place = table.get("admin", server_endpoint)
    tls = read_tls(table.table("admin_tls"), place or "tcp:0") if "admin_tls" in table else None
    token = table.file("admin_token_file", text, token_content)
    return AdminAccess(place, token, tls, table.get("admin_console", flag, False))


def token_content(content: bytes, mode: int) -> bytes:
    """Return the token in a file's content; `mode` is the file's mode. Raises `ValueError`, which does not show it."""
    private(mode)
    content = content.removesuffix(b"\n").removesuffix(b"\r")
    if not _TOKEN.fullmatch(content):
        raise ValueError("must hold a token in one line, of letters, digits and ._~+/=-")
    if len(content) < SHORTEST:
        raise ValueError(
            f"must hold a token of at least {SHORTEST} characters: make one by openssl rand -hex 32"
        )
    return content


def check(source: str, key: str, access: AdminAccess) -> None:
    """Raise `ConfigError` if anybody can use the admin endpoint without credentials, or if its endpoint string cannot
    have the TLS of `access`. The errors name `key`.
    """
    place, _, tls, console = access
    if place is None:
        return
    if tls is not None and server(place).kind == "unix":
        raise ConfigError(f"{source}: {key}: a UNIX socket has no use for admin_tls")
    if tls is not None and server(place).own_tls:
        raise ConfigError(f"{source}: {key}: {place} brings TLS of its own, and admin_tls does too")
    if exposed(place) and not guarded(access):
        raise ConfigError(f"{source}: {key}: {_UNGUARDED}")
    if console and not guarded(access):
        raise ConfigError(f"{source}: {key}: {_OPEN}")


def guarded(access: AdminAccess) -> bool:
    """Whether only users with a token, a certificate, or the right to write to its UNIX socket can use the endpoint."""
    place, token, tls, _ = access
    certified = tls is not None and tls.require_client_certificate
    if place is None or token is not None or certified:
        return place is not None
    mode = server(place).arguments.get("mode", "") if place.lower().startswith("unix:") else ""
    return _OCTAL.fullmatch(mode) is not None and not int(mode, 8) & OTHERS


def unencrypted(endpoint: str, tls: ServerTLS | None) -> bool:
    """Whether a token passes through the network unencrypted on its way to an admin endpoint."""
    return exposed(endpoint) and tls is None and not server(endpoint).own_tls
