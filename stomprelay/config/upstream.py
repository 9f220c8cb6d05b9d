"""`[upstream.NAME]`: which brokers, and how the relay connects to them."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from stomprelay.config import address, endpoint
from stomprelay.config.location import Location, locate
from stomprelay.config.table import Table
from stomprelay.config.values import (
    BEATS,
    LIMITS,
    choice,
    connect_value,
    count,
    destination,
    flag,
    header_name,
    limits,
    passcode,
    passcode_content,
    rate,
    seconds,
    seconds_or_none,
    terms,
    text,
    versions,
)
from stomprelay.relay.model.group import Broker, Policy
from stomprelay.relay.model.health import Checks
from stomprelay.relay.model.profile import PROFILES
from stomprelay.relay.model.upstream import ClientTLS, Upstream
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
    "proxy_protocol",
    "client_address_header",
    "policy",
    "connected",
    "confirm",
    "resend_buffer",
    "reconnect_rate",
    "rebalance_rate",
    "drain_timeout",
    "limits",
    "health",
    "tls",
)
HEALTH_KEYS: Final = ("failures", "pause", "longest_pause", "probe", "destination")
TLS_KEYS: Final = ("ca", "certificate", "key", "name")

PARTS: Final = (
    "{group}: sessions may be on different brokers ({choice}), and who receives on one gets nothing that is sent to "
    'another: say policy = "together", or connected = true where the brokers pass messages on to each other'
)
"""What is to be said of `Upstream.parts`."""

_POLICIES: Final = {policy.value: policy for policy in Policy}
_MOVING: Final = {
    "connected": "connected",
    "confirm": "confirm",
    "resend_buffer": "resend_buffer",
    "reconnect_rate": "reconnect_rate",
    "rebalance_rate": "rebalance_rate",
    "drain_timeout": "drain_timeout",
    "health": "checks",
}
"""Key -> field of the settings that have an effect only where sessions survive their broker."""
_EMBEDDED: Final = f"the embedded broker ({address.MEMORY}) does not read the PROXY protocol"


def location(value: object) -> Location:
    """Return what the value of `uri` means: an address, or lists of them. Raises `ValueError`."""
    return locate(text(value))


def moved(upstream: Upstream, place: Location) -> Upstream:
    """Return the upstream at another location, with its other settings. Raises `ValueError` for one of them that
    does not fit there, by its key.
    """
    try:
        groups = place.groups(upstream.name, upstream.policy, connected=upstream.connected)
    except ValueError as error:
        raise ValueError(f"upstream.{upstream.name}.policy: {error}") from None
    there = replace(upstream, groups=groups, quorum=place.quorum, fan_out_queues=place.fan_out_queues)
    for key in _idle(there):
        raise ValueError(f"upstream.{upstream.name}.{key}: {_needs_a_list(there)}")
    if _unread_header(there):
        raise ValueError(f"upstream.{upstream.name}.proxy_protocol: {_EMBEDDED}")
    return there


def read(table: Table) -> Upstream:
    """Return the upstream in a table. The file that holds its passcode is read now. Raises `ConfigError`."""
    table.only(KEYS)
    bounds = table.table("limits")
    bounds.only(LIMITS)
    place = table.required("uri", location)
    policy = table.get("policy", choice(_POLICIES))
    connected = table.get("connected", flag, Upstream.connected)
    try:
        groups = place.groups(table.name, policy, connected=connected)
    except ValueError as error:
        raise table.error("policy", str(error)) from None
    upstream = Upstream(
        table.name,
        groups,
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
        proxy_protocol=table.get("proxy_protocol", flag, Upstream.proxy_protocol),
        client_address_header=table.get("client_address_header", header_name),
        quorum=place.quorum,
        fan_out_queues=place.fan_out_queues,
        confirm=table.get("confirm", flag, Upstream.confirm),
        resend_buffer=table.get("resend_buffer", count, Upstream.resend_buffer),
        reconnect_rate=table.get("reconnect_rate", rate, Upstream.reconnect_rate),
        rebalance_rate=table.get("rebalance_rate", rate, Upstream.rebalance_rate),
        drain_timeout=table.get("drain_timeout", seconds_or_none, Upstream.drain_timeout),
        policy=policy,
        connected=connected,
        checks=_checks(table.table("health")),
    )
    for key in _idle(upstream):
        raise table.error(key, _needs_a_list(upstream))
    if _unread_header(upstream):
        raise table.error("proxy_protocol", _EMBEDDED)
    return replace(upstream, tls=_tls(table, upstream.brokers)) if "tls" in table else upstream


def _idle(upstream: Upstream) -> Iterable[str]:
    """Return the keys that are set but have no effect, because a session of a plain address ends with its broker."""
    if upstream.movable:
        return ()
    return [key for key, field in _MOVING.items() if getattr(upstream, field) != getattr(Upstream, field)]


def _unread_header(upstream: Upstream) -> bool:
    """Whether the embedded broker would be sent the header of the PROXY protocol."""
    embedded = any(broker.endpoint == address.MEMORY for broker in upstream.brokers)
    return upstream.proxy_protocol and embedded


def _needs_a_list(upstream: Upstream) -> str:
    return f'has no effect on a plain address: write uri = "failover:({upstream.brokers[0]})"'


def _checks(table: Table) -> Checks:
    table.only(HEALTH_KEYS)
    checks = Checks(
        table.get("failures", count, Checks.failures),
        table.get("pause", seconds, Checks.pause),
        table.get("longest_pause", seconds, Checks.longest_pause),
        table.get("probe", seconds_or_none, Checks.probe),
        table.get("destination", destination),
    )
    if checks.pause > checks.longest_pause:
        raise table.error("pause", f"must not be longer than longest_pause, {checks.longest_pause:g} seconds")
    if checks.destination is not None and not checks.probe:
        raise table.error("destination", "needs probe: how often a message is sent there")
    return checks


def _credentials(table: Table) -> Credentials | None:
    login = table.get("login", connect_value)
    secret = table.get("passcode", passcode)
    if "passcode_file" in table:
        if secret is not None:
            raise table.error("passcode_file", "excludes passcode: say one of them")
        secret = table.file("passcode_file", text, lambda content, _mode: passcode_content(content))
    if login is None:
        if secret is not None:
            raise table.error("login", "is missing; a passcode alone is of no use")
        if "connect_escape" in table and "client_address_header" not in table:
            raise table.error("connect_escape", "needs login; what clients say is passed on as it came")
        return None
    return Credentials(login, secret)


def _tls(upstream: Table, brokers: Iterable[Broker]) -> ClientTLS:
    table = upstream.table("tls")
    table.only(TLS_KEYS)
    if not any(broker.tls for broker in brokers):
        own = any(endpoint.client(broker.endpoint).own_tls for broker in brokers)
        reason = "the endpoint brings TLS of its own" if own else "the address does not ask for TLS"
        raise table.error(
            None, f"{reason}; with this table uri has to be ssl://host:port or wss://host:port/path"
        )
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
