"""`[listener.NAME]`: where clients come in and how they are treated."""

from collections.abc import Mapping
from typing import Final

from stomprelay.config import endpoint
from stomprelay.config.leg import BEATS, LIMITS, limits, terms
from stomprelay.config.table import Table
from stomprelay.config.values import (
    choice,
    count,
    flag,
    reference,
    seconds,
    seconds_or_none,
    text,
    versions,
)
from stomprelay.relay.model.listener import Listener, LossPolicy, ServerTLS
from stomprelay.relay.model.upstream import Upstream

ENDPOINT: Final = "tcp:61613:interface=127.0.0.1"
"""Where the relay listens when nothing says otherwise."""

KEYS: Final = (
    "endpoint",
    "upstream",
    "versions",
    *BEATS,
    "loss",
    "require_utf8",
    "trace",
    "linger",
    "limits",
    "tls",
)
LIMIT_KEYS: Final = (*LIMITS, "connect_timeout", "before_connect", "unacknowledged")
TLS_KEYS: Final = ("certificate", "key", "client_ca", "require_client_certificate")

_LOSSES: Final = {loss.value: loss for loss in LossPolicy}


def server(value: object) -> str:
    """A Twisted server endpoint string, which is checked as far as it can be without making it."""
    string = text(value)
    endpoint.server(string)
    return string


def read(table: Table, upstreams: Mapping[str, Upstream], fallback: Upstream | None) -> Listener:
    """A listener. `upstreams` are those of the file, by name; `fallback` is for a listener that names none."""
    table.only(KEYS)
    bounds = table.table("limits")
    bounds.only(LIMIT_KEYS)
    place = table.get("endpoint", server, ENDPOINT)
    upstream = table.get("upstream", reference("upstream", upstreams), fallback)
    if upstream is None:
        raise table.error("upstream", f"is missing; there are {', '.join(upstreams)}")
    return Listener(
        table.name,
        place,
        upstream,
        versions=table.get("versions", versions, Listener.versions),
        heart_beat=terms(table, Listener.heart_beat),
        limits=limits(bounds, Listener.limits),
        connect_timeout=bounds.get("connect_timeout", seconds, Listener.connect_timeout),
        before_connect=bounds.get("before_connect", count, Listener.before_connect),
        unacknowledged=bounds.get("unacknowledged", count, Listener.unacknowledged),
        linger=table.get("linger", seconds_or_none, Listener.linger),
        loss=table.get("loss", choice(_LOSSES), Listener.loss),
        require_utf8=table.get("require_utf8", flag, Listener.require_utf8),
        trace=table.get("trace", flag, Listener.trace),
        tls=_tls(table, place) if "tls" in table else None,
    )


def _tls(listener: Table, place: str) -> ServerTLS:
    table = listener.table("tls")
    table.only(TLS_KEYS)
    if endpoint.server(place).own_tls:
        raise table.error(None, "the endpoint brings TLS of its own; with this table it has to be a tcp: one")
    certificate, key = table.path("certificate", text), table.path("key", text)
    if certificate is None or key is None:
        raise table.error("certificate" if certificate is None else "key", "is missing")
    client_ca = table.path("client_ca", text)
    required = table.get("require_client_certificate", flag, False)
    if required and client_ca is None:
        raise table.error("require_client_certificate", "needs client_ca, by which they are verified")
    return ServerTLS(certificate, key, client_ca, required)
