"""`[upstream.NAME]`: which brokers there are, and how the relay connects to them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from stomprelay.config import address
from stomprelay.config.settings import SETTINGS
from stomprelay.config.table import ConfigTable, built
from stomprelay.config.uri import Location, locate
from stomprelay.config.values import connect_value, passcode, passcode_content, text
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.session.handshake import Credentials

PARTS: Final = (
    "{group}: sessions may be on different brokers ({choice}), and who receives on one gets nothing that is sent to "
    'another: say policy = "together", or connected = true where the brokers pass messages on to each other'
)

_MOVING: Final = {
    key: str(each.field or key) for key, each in SETTINGS["upstream.NAME"].items() if each.moving
}
"""Keys that have an effect only for sessions that survive their broker -> their fields."""
_EMBEDDED: Final = f"the embedded broker ({address.MEMORY}) does not read the PROXY protocol"


def location(value: object) -> Location:
    """Return the groups and brokers that the value of `uri` means. Raises `ValueError`."""
    return locate(text(value))


def moved(upstream: Upstream, place: Location) -> Upstream:
    """Return the upstream with the brokers of another location. Raises `ValueError` if a setting does not fit them."""
    try:
        groups = place.groups(upstream.name, upstream.policy, connected=upstream.connected)
    except ValueError as error:
        raise ValueError(f"upstream.{upstream.name}.policy: {error}") from None
    there = replace(upstream, groups=groups, quorum=place.quorum, fan_out_queues=place.fan_out_queues)
    for key, reason in _unfit(there):
        raise ValueError(f"upstream.{upstream.name}.{key}: {reason}")
    return there


def places(values: Mapping[str, object]) -> str:
    """Return a text about a table's groups. If two tables have the same text, they have the same groups."""
    return repr([values.get(key) for key in ("uri", "policy", "connected")])


def read(table: ConfigTable, running: Upstream | None = None) -> Upstream:
    """Return the upstream in a table. If `running` is given, the new upstream has the groups of `running`. Reads the
    passcode's file. Raises `ConfigError`.
    """
    found = table.read(SETTINGS["upstream.NAME"])
    found |= table.read_inner("limits", SETTINGS["upstream.NAME.limits"])
    found |= table.read_inner("map", SETTINGS["upstream.NAME.map"])
    health = table.table("health")
    found |= health.read(SETTINGS["upstream.NAME.health"])
    place = running or table.required("uri", location)
    try:
        groups = (
            place.groups
            if isinstance(place, Upstream)
            else place.groups(
                table.name, found.get("policy"), connected=found.get("connected", Upstream.connected)
            )
        )
    except ValueError as error:
        raise table.error("policy", str(error)) from None
    upstream = Upstream(
        table.name,
        groups,
        credentials=_credentials(table),
        quorum=place.quorum,
        fan_out_queues=place.fan_out_queues,
        **built(Upstream, found),
    )
    checks = upstream.checks
    if checks.pause > checks.longest_pause:
        raise health.error(
            "pause", f"must not be longer than longest_pause, {checks.longest_pause:g} seconds"
        )
    if checks.destination is not None and not checks.probe:
        raise health.error("destination", "needs probe: how often a message is sent there")
    for key, reason in _unfit(upstream):
        raise table.error(key, reason)
    return replace(upstream, tls=_tls(table, upstream.brokers)) if "tls" in table else upstream


def _unfit(upstream: Upstream) -> list[tuple[str, str]]:
    """Return the keys that have no effect or do not fit the brokers, each with the reason. For a plain address each
    session ends with its broker, so some keys have no effect.
    """
    unfit = []
    found = [key for key, each in _MOVING.items() if getattr(upstream, each) != getattr(Upstream, each)]
    if found and not upstream.movable:
        reason = f'has no effect on a plain address: write uri = "failover:({upstream.brokers[0]})"'
        unfit = [(key, reason) for key in found]
    if upstream.proxy_protocol and any(each.endpoint == address.MEMORY for each in upstream.brokers):
        unfit.append(("proxy_protocol", _EMBEDDED))
    known = [each.uri for each in upstream.brokers]
    unfit += [
        ("map.hosts", f"{each} is no broker here: {', '.join(known)}")
        for each in upstream.map.hosts
        if each not in known
    ]
    return unfit


def _credentials(table: ConfigTable) -> Credentials | None:
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


def _tls(upstream: ConfigTable, brokers: Iterable[Broker]) -> ClientTLS:
    table = upstream.table("tls")
    found = table.read(SETTINGS["upstream.NAME.tls"])
    if not any(broker.tls for broker in brokers):
        own = any(address.client(broker.endpoint).own_tls for broker in brokers)
        reason = "the endpoint brings TLS of its own" if own else "the address does not ask for TLS"
        raise table.error(
            None, f"{reason}; with this table uri has to be ssl://host:port or wss://host:port/path"
        )
    tls = ClientTLS(**found)
    if (tls.certificate is None) != (tls.key is None):
        missing, given = ("certificate", "key") if tls.certificate is None else ("key", "certificate")
        raise table.error(missing, f"is missing; {given} is of no use without it")
    return tls
