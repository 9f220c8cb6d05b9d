"""Every setting, one row a key: the reader of its value, the field that has it, and when a reload has its effect.

The keys that a table may have, what is read of it, what a reload compares and names, `docs/settings.md` and the check
of `config/stomprelay.toml`, which has the meaning of each key, come out of these rows. A key whose row has no reader is
read by the module of its table: it needs the file's names, or it is a table or a secret of its own.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

from stomprelay.auth.settings import Told
from stomprelay.broker.bounds import DEFAULTS
from stomprelay.config.address import certificate_name, hosts
from stomprelay.config.endpoint import server_endpoint
from stomprelay.config.table import Setting, Takes
from stomprelay.config.values import (
    LEVELS,
    ack_modes,
    bodies,
    choice,
    connect_value,
    count,
    destination,
    flag,
    header_name,
    header_names,
    header_patterns,
    headers,
    heart_beat,
    multiple,
    origins,
    per_second,
    printable,
    rate,
    seconds,
    seconds_or_none,
    service_url,
    share,
    size,
    socket_path,
    text,
    texts,
    versions,
    web_path,
    workers,
)
from stomprelay.journal.settings import WhenFull
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import PROFILES

Settings = Mapping[str, Setting]

NEW: Final = Takes.NEW_SESSIONS
NOW: Final = Takes.AT_ONCE
RESTART: Final = Takes.RESTART

ACTIONS: Final = {"allow": True, "deny": False}

_BEATS: Final[Settings] = {
    "heart_beat": Setting(heart_beat, ("heart_beat.can_send", "heart_beat.wants")),
    "heart_beat_idle": Setting(share, "heart_beat.idle"),
    "heart_beat_tolerance": Setting(multiple, "heart_beat.tolerance"),
}
_FRAME_LIMITS: Final[Settings] = {
    "headers": Setting(headers, "limits.headers"),
    "header_line": Setting(count, "limits.header_line"),
    "body": Setting(count, "limits.body"),
}


def _rates(scope: str) -> Settings:
    return {
        "connects": Setting(per_second, f"rates.{scope}.connects", NOW),
        "frames": Setting(per_second, f"rates.{scope}.frames", NOW),
        "bytes": Setting(per_second, f"rates.{scope}.bytes", NOW),
        "burst": Setting(seconds, f"rates.{scope}.burst", NOW),
        "when_reached": Setting(choice({"pause": False, "refuse": True}), f"rates.{scope}.refuse", NOW),
    }


def _server_tls(takes: Takes) -> Settings:
    return {
        "certificate": Setting(text, takes=takes, path=True, required=True),
        "key": Setting(text, takes=takes, path=True, required=True),
        "client_ca": Setting(text, takes=takes, path=True),
        "require_client_certificate": Setting(flag, takes=takes),
    }


SETTINGS: Final[Mapping[str, Settings]] = {
    "": {
        "admin": Setting(server_endpoint, takes=NOW),
        "admin_hosts": Setting(hosts, takes=NOW),
        "admin_token_file": Setting(field="admin_token", takes=NOW),
        "admin_tls": Setting(takes=NOW),
        "metrics": Setting(server_endpoint, takes=NOW),
        "admin_console": Setting(flag, takes=NOW),
        "stop_timeout": Setting(seconds_or_none, takes=NOW),
        "handover": Setting(socket_path, takes=RESTART, path=True),
        "log_level": Setting(choice(LEVELS), takes=NOW),
        "fast_path": Setting(flag),
        "workers": Setting(workers, takes=RESTART),
        "worker_timeout": Setting(seconds, takes=NOW),
        "limits": Setting(),
        "listener": Setting(),
        "upstream": Setting(),
        "route": Setting(),
        "rule": Setting(),
        "broker": Setting(takes=RESTART),
        "journal": Setting(),
        "auth": Setting(),
    },
    "admin_tls": _server_tls(NOW),
    "limits": {
        "clients": Setting(count, takes=NOW),
        "memory": Setting(count, takes=NOW),
    },
    "listener.NAME": {
        "endpoint": Setting(server_endpoint, takes=NOW),
        "upstream": Setting(),
        "versions": Setting(versions),
        **_BEATS,
        "loss": Setting(choice({each.value: each for each in LossPolicy})),
        "require_utf8": Setting(flag),
        "trace": Setting(flag),
        "linger": Setting(seconds_or_none),
        "limits": Setting(),
        "tls": Setting(),
        "web": Setting(),
        "auth": Setting(),
        "rules_default": Setting(choice(ACTIONS), "rules", NOW),
    },
    "listener.NAME.limits": {
        **_FRAME_LIMITS,
        "connect_timeout": Setting(seconds),
        "before_connect": Setting(count),
        "unacknowledged": Setting(count),
        "clients": Setting(count),
        "clients_per_address": Setting(count),
        "transactions": Setting(count),
        "subscriptions": Setting(count),
        "kept": Setting(count),
        "clients_per_user": Setting(count),
        **_rates("listener"),
        "address": Setting(takes=NOW),
        "user": Setting(takes=NOW),
    },
    "listener.NAME.limits.address": _rates("address"),
    "listener.NAME.limits.user": _rates("user"),
    "listener.NAME.tls": _server_tls(NEW),
    "listener.NAME.web": {
        "path": Setting(web_path),
        "origins": Setting(origins),
        "ping_interval": Setting(seconds_or_none),
        "message": Setting(count),
        "compression": Setting(flag),
    },
    "upstream.NAME": {
        "uri": Setting(field=("quorum", "fan_out_queues"), takes=NOW),
        "host": Setting(connect_value),
        "login": Setting(field="credentials"),
        "passcode": Setting(),
        "passcode_file": Setting(),
        "versions": Setting(versions),
        "profile": Setting(choice(PROFILES)),
        **_BEATS,
        "connect_timeout": Setting(seconds),
        "disconnect_timeout": Setting(seconds),
        "keep_alive_eol": Setting(seconds_or_none, "keep_alive"),
        "connect_escape": Setting(flag),
        "close_on_error": Setting(flag),
        "proxy_protocol": Setting(flag, takes=NOW),
        "client_address_header": Setting(header_name),
        "policy": Setting(choice({each.value: each for each in Policy}), takes=NOW),
        "connected": Setting(flag, takes=NOW),
        "confirm": Setting(flag),
        "resend_buffer": Setting(count),
        "reconnect_rate": Setting(rate),
        "rebalance_rate": Setting(rate, takes=NOW),
        "drain_timeout": Setting(seconds_or_none, takes=NOW),
        "limits": Setting(),
        "health": Setting(),
        "tls": Setting(takes=NOW),
    },
    "upstream.NAME.limits": _FRAME_LIMITS,
    "upstream.NAME.health": {
        "failures": Setting(count, "checks.failures"),
        "pause": Setting(seconds, "checks.pause"),
        "longest_pause": Setting(seconds, "checks.longest_pause"),
        "probe": Setting(seconds_or_none, "checks.probe", NOW),
        "destination": Setting(destination, "checks.destination", NOW),
    },
    "upstream.NAME.tls": {
        "ca": Setting(text, takes=NOW, path=True),
        "certificate": Setting(text, takes=NOW, path=True),
        "key": Setting(text, takes=NOW, path=True),
        "name": Setting(certificate_name, takes=NOW),
    },
    "route[N]": {
        "destination": Setting(text),
        "prefix": Setting(text),
        "glob": Setting(text),
        "upstream": Setting(),
        "listener": Setting(),
    },
    "rule[N]": {
        "action": Setting(choice(ACTIONS), "allow", NOW, required=True),
        "send": Setting(texts, takes=NOW),
        "subscribe": Setting(texts, takes=NOW),
        "user": Setting(texts, "users", NOW),
        "group": Setting(texts, "groups", NOW),
        "certificate": Setting(texts, "certificates", NOW),
        "ack": Setting(ack_modes, takes=NOW),
        "headers": Setting(header_patterns, takes=NOW),
        "size": Setting(size, takes=NOW),
        "name": Setting(printable, takes=NOW),
        "listener": Setting(takes=NOW),
    },
    "broker": {
        each.name: Setting(
            headers if each.name == "headers" else count if each.type in ("int", int) else seconds,
            takes=RESTART,
        )
        for each in fields(DEFAULTS)
    },
    "journal": {
        "directory": Setting(text, takes=RESTART, path=True),
        "relay": Setting(text, takes=RESTART),
        "segment_size": Setting(count, takes=RESTART),
        "segment_age": Setting(seconds, takes=RESTART),
        "queue": Setting(count, takes=RESTART),
        "when_full": Setting(choice({each.value: each for each in WhenFull}), takes=RESTART),
        "flush_interval": Setting(seconds_or_none, takes=NOW),
        "sync_interval": Setting(seconds_or_none, takes=NOW),
        "bodies": Setting(bodies),
        "redact": Setting(header_names),
        "retain_age": Setting(seconds, takes=NOW),
        "retain_size": Setting(count, takes=NOW),
        "capture": Setting(field="rules"),
    },
    "journal.capture[N]": {
        "destination": Setting(text, required=True),
        "bodies": Setting(bodies, required=True),
    },
    "auth.NAME": {
        "users": Setting(),
        "certificates": Setting(flag),
        "token": Setting(field="tokens"),
        "service": Setting(),
        "broker": Setting(choice({each.value: each for each in Told})),
        "logins": Setting(),
    },
    "auth.NAME.token": {
        "keys": Setting(),
        "algorithms": Setting(texts, required=True),
        "audience": Setting(texts, required=True),
        "issuer": Setting(text),
        "leeway": Setting(seconds_or_none),
        "user": Setting(text),
        "groups": Setting(text),
        "renew": Setting(text),
    },
    "auth.NAME.service": {
        "url": Setting(service_url, required=True),
        "timeout": Setting(seconds),
        "cache": Setting(seconds_or_none),
        "cache_entries": Setting(count),
    },
}
"""Table -> key -> its row. NAME stands for a name of the user's, [N] for a place in an array of tables."""


def takes(key: str) -> Takes:
    """Return when a setting has its effect; `key` has NAME in place of a listener's or an upstream's name."""
    table, _, name = key.rpartition(".")
    return SETTINGS[table][name].takes


def built(owner: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in `found` as a record takes them: those of a part, `part.field`, are put into the part that
    `owner` has, a record or its class with the defaults.
    """
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for field, value in found.items():
        part, _, rest = field.partition(".")
        if rest:
            parts.setdefault(part, {})[rest] = value
        else:
            own[part] = value
    for part, inner in parts.items():
        default = getattr(owner, part)
        own[part] = replace(default, **built(default, inner))
    return own


@cache
def field_keys(table: str) -> dict[str, str]:
    """Return the key of each field of the record that is read from a table and from the tables in it. A part of the
    record has the name of its table, or the first key that it is read from.
    """
    found: dict[str, str] = {}
    for place, settings in SETTINGS.items():
        if place == table or (place.startswith(f"{table}.") if table else place == "limits"):
            inner = place[len(table) :].removeprefix(".")
            for key, each in settings.items():
                for field in each.field if isinstance(each.field, tuple) else (each.field or key,):
                    part, _, nested = field.partition(".")
                    found.setdefault(part, (inner or key) if nested else f"{inner}.{key}".removeprefix("."))
    return found
