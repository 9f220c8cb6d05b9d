"""`[upstream.NAME]`: where clients are taken to and how their brokers are spoken to."""

from ipaddress import ip_address
from pathlib import Path
from typing import Final

from stomprelay.config import address, endpoint
from stomprelay.config.leg import BEATS, LIMITS, limits, terms
from stomprelay.config.table import Table
from stomprelay.config.values import (
    choice,
    connect_value,
    flag,
    passcode,
    passcode_content,
    seconds,
    seconds_or_none,
    text,
    versions,
)
from stomprelay.relay.profile import PROFILES
from stomprelay.relay.upstream import Broker, ClientTLS, Upstream
from stomprelay.session.handshake import Credentials

KEYS: Final = (
    "uri",
    "host",
    "login",
    "passcode",
    "passcode_file",
    "versions",
    "profile",
    *BEATS,
    "connect_timeout",
    "disconnect_timeout",
    "keep_alive_eol",
    "connect_escape",
    "close_on_error",
    "limits",
    "tls",
)
TLS_KEYS: Final = ("ca", "certificate", "key", "name")

_LONGEST_PASSCODE: Final = 65536


def broker(value: object) -> Broker:
    """A broker's address."""
    return address.broker(text(value))


def read(table: Table) -> Upstream:
    """An upstream; the file that holds its passcode is read now."""
    table.only(KEYS)
    bounds = table.table("limits")
    bounds.only(LIMITS)
    place = table.required("uri", broker)
    return Upstream(
        table.name,
        place,
        host=table.get("host", connect_value),
        credentials=_credentials(table),
        versions=table.get("versions", versions),
        profile=table.get("profile", choice(PROFILES), Upstream.profile),
        heart_beat=terms(table, Upstream.heart_beat),
        limits=limits(bounds, Upstream.limits),
        connect_timeout=table.get("connect_timeout", seconds, Upstream.connect_timeout),
        disconnect_timeout=table.get("disconnect_timeout", seconds, Upstream.disconnect_timeout),
        keep_alive=table.get("keep_alive_eol", seconds_or_none, Upstream.keep_alive),
        connect_escape=table.get("connect_escape", flag),
        close_on_error=table.get("close_on_error", flag, Upstream.close_on_error),
        tls=_tls(table, place) if "tls" in table else ClientTLS(),
    )


def _credentials(table: Table) -> Credentials | None:
    login = table.get("login", connect_value)
    secret = table.get("passcode", passcode)
    file = table.path("passcode_file", text)
    if file is not None:
        if secret is not None:
            raise table.error("passcode_file", "excludes passcode: say one of them")
        secret = _content(table, file)
    if login is None:
        if secret is not None:
            raise table.error("login", "is missing; a passcode alone is of no use")
        if "connect_escape" in table:
            raise table.error("connect_escape", "needs login; what clients say is passed on as it came")
        return None
    return Credentials(login, secret)


def _content(table: Table, file: str) -> bytes:
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(_LONGEST_PASSCODE + 1)
    except OSError as error:
        raise table.error("passcode_file", f"{file} cannot be read: {error.strerror}") from None
    if len(content) > _LONGEST_PASSCODE:
        raise table.error("passcode_file", f"{file} is larger than {_LONGEST_PASSCODE} bytes")
    try:
        return passcode_content(content)
    except ValueError as error:
        raise table.error("passcode_file", f"{file}: {error}") from None


def _tls(upstream: Table, place: Broker) -> ClientTLS:
    table = upstream.table("tls")
    table.only(TLS_KEYS)
    if not place.tls:
        own = place.endpoint != address.MEMORY and endpoint.client(place.endpoint).own_tls
        reason = "the endpoint brings TLS of its own" if own else "the address does not ask for TLS"
        raise table.error(None, f"{reason}; with this table uri has to be ssl://host:port")
    certificate, key = table.path("certificate", text), table.path("key", text)
    if (certificate is None) != (key is None):
        missing, given = ("certificate", "key") if certificate is None else ("key", "certificate")
        raise table.error(missing, f"is missing; {given} is of no use without it")
    return ClientTLS(table.path("ca", text), certificate, key, table.get("name", _name))


def _name(value: object) -> str:
    name = text(value)
    return name if _is_address(name) else address.host_name(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
