"""`[auth.NAME]`: who may come in at the listeners that name it. The files that it names are read now."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from stomprelay.auth.lines import LONGEST, read_logins
from stomprelay.auth.settings import AuthService, AuthSettings, Told
from stomprelay.config.address import MEMORY
from stomprelay.config.table import ConfigError, Table
from stomprelay.config.values import choice, count, flag, seconds, seconds_or_none, shown, text, texts
from stomprelay.relay.model.listener import Listener

if TYPE_CHECKING:
    from stomprelay.auth.tokens import Tokens
    from stomprelay.auth.users import Users

METHODS: Final = ("users", "certificates", "token", "service")
KEYS: Final = (*METHODS, "broker", "logins")
INSTALL: Final = "pip install argon2-cffi pyjwt"
"""How to get what passcodes and tokens need."""
TOKEN_KEYS: Final = ("keys", "algorithms", "audience", "issuer", "leeway", "user", "groups", "renew")
SERVICE_KEYS: Final = ("url", "timeout", "cache", "cache_entries")

_TOLD: Final = {each.value: each for each in Told}


def read(table: Table) -> AuthSettings:
    """Return who may come in, by a table. Raises `ConfigError`."""
    table.only(KEYS)
    found = AuthSettings(
        table.name,
        users=_users(table),
        certificates=table.get("certificates", flag, AuthSettings.certificates),
        tokens=_tokens(table.table("token")) if "token" in table else None,
        service=_service(table.table("service")) if "service" in table else None,
        broker=table.get("broker", choice(_TOLD), AuthSettings.broker),
        logins=table.file("logins", text, read_logins, LONGEST) or {},
        renew=table.table("token").get("renew", text),
    )
    if not (found.users or found.certificates or found.tokens or found.service):
        raise table.error(None, f"lets nobody in; say by what clients are known: {', '.join(METHODS)}")
    return found


def check(source: str, listeners: Iterable[Listener], auths: Iterable[AuthSettings]) -> None:
    """Raise `ConfigError` for a listener that asks who comes in, where that cannot be found out, or where a broker
    would be told what a client showed to the relay alone.
    """
    known = {each.name: each for each in auths}
    for listener in listeners:
        if listener.auth is None:
            continue
        auth = known[listener.auth]
        if auth.certificates and (listener.tls is None or listener.tls.client_ca is None):
            raise ConfigError(
                f"{source}: listener.{listener.name}.auth: auth.{auth.name}.certificates needs "
                f"listener.{listener.name}.tls.client_ca, by which they are verified"
            )
        for upstream in listener.upstreams():
            away = any(broker.endpoint != MEMORY for broker in upstream.brokers)
            if auth.broker is Told.LOGIN and upstream.credentials is None and away:
                raise ConfigError(
                    f"{source}: auth.{auth.name}.broker: upstream.{upstream.name} has no login, and what clients "
                    "say is not for brokers: set its login and passcode_file, or say what they are told: "
                    f'broker = "{Told.USER.value}" or "{Told.CLIENT.value}"'
                )


@contextmanager
def _package(table: Table, key: str | None) -> Iterator[None]:
    """Import meanwhile what needs a package that not everybody has. Raises `ConfigError` where it is not there."""
    try:
        yield
    except ImportError as error:
        raise table.error(key, f"needs {error.name}: {INSTALL}") from None


def _users(table: Table) -> "Users | None":
    if "users" not in table:
        return None
    with _package(table, "users"):
        from stomprelay.auth.users import Users
    return table.file("users", text, Users.read, LONGEST)


def _tokens(table: Table) -> "Tokens":
    with _package(table, None):
        from stomprelay.auth.keys import ALGORITHMS, read_keys
        from stomprelay.auth.tokens import Tokens
    table.only(TOKEN_KEYS)
    keys = table.file("keys", text, lambda content, _mode: read_keys(content))
    if keys is None:
        raise table.error("keys", "is missing: a file with the keys that verify tokens, PEM or JWKS")
    known = [name for name in ALGORITHMS if any(name in each.algorithms for each in keys)]
    algorithms = table.required("algorithms", texts)
    for each in algorithms:
        if each not in ALGORITHMS:
            raise table.error("algorithms", f"{shown(each)} is none of {', '.join(ALGORITHMS)}")
        if each not in known:
            raise table.error("algorithms", f"no key in keys is for {each}, but for {', '.join(known)}")
    return Tokens(
        keys,
        algorithms,
        audience=table.required("audience", texts),
        issuer=table.get("issuer", text),
        leeway=table.get("leeway", seconds_or_none, Tokens.leeway),
        user=table.get("user", text, Tokens.user),
        groups=table.get("groups", text, Tokens.groups),
    )


def _service(table: Table) -> AuthService:
    table.only(SERVICE_KEYS)
    return AuthService(
        table.required("url", _url),
        table.get("timeout", seconds, AuthService.timeout),
        table.get("cache", seconds_or_none, AuthService.cache),
        table.get("cache_entries", count, AuthService.cache_entries),
    )


def _url(value: object) -> str:
    """Return the URL of a service that is told passcodes. Raises `ValueError`."""
    url = text(value)
    try:
        found = urlsplit(url)
        host, _ = found.hostname or "", found.port
    except ValueError:
        raise ValueError("must be a URL such as https://auth.example.net/stomp") from None
    if found.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable():
        raise ValueError("must be a URL such as https://auth.example.net/stomp")
    if found.username is not None or found.query or found.fragment or " " in url:
        raise ValueError("must be a URL without a user, a query, a fragment or blanks")
    if found.scheme == "http" and not _loopback(host):
        raise ValueError("must be https://, for it is told passcodes, unless on the loopback interface")
    return url


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
