"""`[auth.NAME]`: which clients may connect to the listeners that name the table. Its files are read, too."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from stomprelay.auth.lines import LONGEST, read_logins
from stomprelay.auth.settings import AuthService, AuthSettings, BrokerLogin
from stomprelay.config.address import MEMORY
from stomprelay.config.settings import SETTINGS
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.config.values import shown, text
from stomprelay.relay.model.listener import Listener

if TYPE_CHECKING:
    from stomprelay.auth.tokens import Tokens
    from stomprelay.auth.users import Users

METHODS: Final = ("users", "certificates", "token", "service")
INSTALL: Final = "pip install argon2-cffi pyjwt"
"""The command that installs the packages for passcodes and tokens."""


def read(table: ConfigTable) -> AuthSettings:
    """Return the settings in the table: how clients are identified. Raises `ConfigError`."""
    values = table.read(SETTINGS["auth.NAME"])
    tokens, renew = _tokens(table.table("token")) if "token" in table else (None, None)
    service = table.table("service").read(SETTINGS["auth.NAME.service"]) if "service" in table else None
    found = AuthSettings(
        table.name,
        users=_users(table),
        tokens=tokens,
        service=None if service is None else AuthService(**service),
        logins=table.file("logins", text, read_logins, LONGEST) or {},
        renew=renew,
        **values,
    )
    if not (found.users or found.certificates or found.tokens or found.service):
        raise table.error(None, f"lets nobody in; say by what clients are known: {', '.join(METHODS)}")
    return found


def check(source: str, listeners: Iterable[Listener], auths: Iterable[AuthSettings]) -> None:
    """Raise `ConfigError` if a listener with certificates has no `client_ca`, or if a broker's login is missing."""
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
            if auth.broker is BrokerLogin.LOGIN and upstream.credentials is None and away:
                raise ConfigError(
                    f"{source}: auth.{auth.name}.broker: upstream.{upstream.name} has no login, and what clients "
                    "say is not for brokers: set its login and passcode_file, or say what they are told: "
                    f'broker = "{BrokerLogin.USER.value}" or "{BrokerLogin.CLIENT.value}"'
                )


@contextmanager
def _package(table: ConfigTable, key: str | None) -> Iterator[None]:
    """Run the `with` block, which imports a package. Raises `ConfigError` if the package is not installed."""
    try:
        yield
    except ImportError as error:
        raise table.error(key, f"needs {error.name}: {INSTALL}") from None


def _users(table: ConfigTable) -> "Users | None":
    if "users" not in table:
        return None
    with _package(table, "users"):
        from stomprelay.auth.users import Users
    return table.file("users", text, Users.read, LONGEST)


def _tokens(table: ConfigTable) -> "tuple[Tokens, str | None]":
    """Return the reader of tokens, and the destination to which clients send new tokens, or None."""
    with _package(table, None):
        from stomprelay.auth.tokens import ALGORITHMS, Tokens, read_keys
    table.only(SETTINGS["auth.NAME.token"])
    keys = table.file("keys", text, lambda content, _mode: read_keys(content))
    if keys is None:
        raise table.error("keys", "is missing: a file with the keys that verify tokens, PEM or JWKS")
    found = table.read(SETTINGS["auth.NAME.token"])
    known = [name for name in ALGORITHMS if any(name in each.algorithms for each in keys)]
    for each in found["algorithms"]:
        if each not in ALGORITHMS:
            raise table.error("algorithms", f"{shown(each)} is none of {', '.join(ALGORITHMS)}")
        if each not in known:
            raise table.error("algorithms", f"no key in keys is for {each}, but for {', '.join(known)}")
    renew = found.pop("renew", None)
    return Tokens(keys, **found), renew
