"""Every setting, one row for each key: the reader of its value, the field for the value, and when a changed value takes
effect after a reload.

These rows decide which keys a table may have, how values are read, and which keys a reload compares. `docs/settings.md`
and the check of `config/stomprelay.toml`, which explains each key, are made from them, too. A key whose row has no
reader is read by the module of its table, because it is a table, a secret, or a name defined elsewhere in the file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from stomprelay.auth.settings import BrokerLogin
from stomprelay.broker.message import DEFAULTS
from stomprelay.config import values
from stomprelay.config.address import certificate_name, hosts, server_endpoint
from stomprelay.config.table import Setting, Takes
from stomprelay.journal.settings import WhenFull
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import PROFILES

Settings = Mapping[str, Setting]

NOW: Final = Takes.AT_ONCE
RESTART: Final = Takes.RESTART

ACTIONS: Final = {"allow": True, "deny": False}

_BEATS: Final[Settings] = {
    "heart_beat": Setting(values.heart_beat, ("heart_beat.can_send", "heart_beat.wants")),
    "heart_beat_idle": Setting(values.share, "heart_beat.idle"),
    "heart_beat_tolerance": Setting(values.multiple, "heart_beat.tolerance"),
}
_FRAME_LIMITS: Final[Settings] = {
    "headers": Setting(values.headers, "limits.headers"),
    "header_line": Setting(values.count, "limits.header_line"),
    "body": Setting(values.count, "limits.body"),
}
_PATTERN: Final[Settings] = {
    "destination": Setting(values.text),
    "prefix": Setting(values.text),
    "glob": Setting(values.text),
}


def _rates(scope: str) -> Settings:
    return {
        "connects": Setting(values.per_second, f"rates.{scope}.connects", NOW),
        "frames": Setting(values.per_second, f"rates.{scope}.frames", NOW),
        "bytes": Setting(values.per_second, f"rates.{scope}.bytes", NOW),
        "burst": Setting(values.seconds, f"rates.{scope}.burst", NOW),
        "when_reached": Setting(
            values.choice({"pause": False, "refuse": True}), f"rates.{scope}.refuse", NOW
        ),
    }


def _server_tls(takes: Takes) -> Settings:
    return {
        "certificate": Setting(values.text, takes=takes, path=True, required=True),
        "key": Setting(values.text, takes=takes, path=True, required=True),
        "client_ca": Setting(values.text, takes=takes, path=True),
        "require_client_certificate": Setting(values.flag, takes=takes),
    }


_BROKER: Final = {"headers": values.headers, "connect_timeout": values.seconds}
"""The settings of the embedded broker that are not simple counts, each with its reader."""

SETTINGS: Final[Mapping[str, Settings]] = {
    "": {
        "admin": Setting(server_endpoint, takes=NOW),
        "admin_hosts": Setting(hosts, takes=NOW),
        "admin_token_file": Setting(field="admin_token", takes=NOW),
        "admin_tls": Setting(takes=NOW),
        "metrics": Setting(server_endpoint, takes=NOW),
        "admin_console": Setting(values.flag, takes=NOW),
        "stop_timeout": Setting(values.seconds_or_none, takes=NOW),
        "handover": Setting(values.socket_path, takes=RESTART, path=True),
        "log_level": Setting(values.choice(values.LEVELS), takes=NOW),
        "fast_path": Setting(values.flag),
        "workers": Setting(values.workers, takes=RESTART),
        "worker_timeout": Setting(values.seconds, takes=NOW),
        "moves_file": Setting(values.text, takes=NOW, path=True),
        "limits": Setting(),
        "listener": Setting(),
        "upstream": Setting(),
        "route": Setting(),
        "move": Setting(),
        "rule": Setting(),
        "broker": Setting(takes=RESTART),
        "journal": Setting(),
        "auth": Setting(),
    },
    "admin_tls": _server_tls(NOW),
    "limits": {
        "clients": Setting(values.count, takes=NOW),
        "memory": Setting(values.count, takes=NOW),
    },
    "listener.NAME": {
        "endpoint": Setting(server_endpoint, takes=NOW),
        "upstream": Setting(),
        "versions": Setting(values.versions),
        **_BEATS,
        "loss": Setting(values.member(LossPolicy)),
        "require_utf8": Setting(values.flag),
        "trace": Setting(values.flag),
        "linger": Setting(values.seconds_or_none),
        "limits": Setting(),
        "tls": Setting(),
        "web": Setting(),
        "auth": Setting(),
        "rules_default": Setting(values.choice(ACTIONS), "rules", NOW),
    },
    "listener.NAME.limits": {
        **_FRAME_LIMITS,
        "connect_timeout": Setting(values.seconds),
        "before_connect": Setting(values.count),
        "unacknowledged": Setting(values.count),
        "clients": Setting(values.count),
        "clients_per_address": Setting(values.count),
        "transactions": Setting(values.count),
        "subscriptions": Setting(values.count),
        "kept": Setting(values.count),
        "clients_per_user": Setting(values.count),
        **_rates("listener"),
        "address": Setting(takes=NOW),
        "user": Setting(takes=NOW),
    },
    "listener.NAME.limits.address": _rates("address"),
    "listener.NAME.limits.user": _rates("user"),
    "listener.NAME.tls": _server_tls(Takes.NEW_SESSIONS),
    "listener.NAME.web": {
        "path": Setting(values.web_path),
        "origins": Setting(values.origins),
        "ping_interval": Setting(values.seconds_or_none),
        "message": Setting(values.count),
        "compression": Setting(values.flag),
    },
    "upstream.NAME": {
        "uri": Setting(field=("quorum", "fan_out_queues"), takes=NOW),
        "host": Setting(values.connect_value),
        "login": Setting(field="credentials"),
        "passcode": Setting(),
        "passcode_file": Setting(),
        "versions": Setting(values.versions),
        "profile": Setting(values.choice(PROFILES)),
        **_BEATS,
        "connect_timeout": Setting(values.seconds),
        "disconnect_timeout": Setting(values.seconds),
        "keep_alive_eol": Setting(values.seconds_or_none, "keep_alive"),
        "connect_escape": Setting(values.flag),
        "close_on_error": Setting(values.flag),
        "proxy_protocol": Setting(values.flag, takes=NOW),
        "client_address_header": Setting(values.header_name),
        "policy": Setting(values.member(Policy), takes=NOW),
        "connected": Setting(values.flag, takes=NOW, moving=True),
        "confirm": Setting(values.flag, moving=True),
        "confirm_timeout": Setting(values.seconds_or_none, moving=True),
        "resend_buffer": Setting(values.count, moving=True),
        "reconnect_rate": Setting(values.rate, moving=True),
        "rebalance_rate": Setting(values.rate, takes=NOW, moving=True),
        "drain_timeout": Setting(values.seconds_or_none, takes=NOW, moving=True),
        "limits": Setting(),
        "map": Setting(),
        "health": Setting(field="checks", moving=True),
        "tls": Setting(takes=NOW),
    },
    "upstream.NAME.limits": _FRAME_LIMITS,
    "upstream.NAME.map": {
        "clients": Setting(values.product, "map.clients"),
        "names": Setting(values.name_rows, "map.names"),
        "headers": Setting(values.map_headers, "map.headers"),
        "ignore": Setting(values.ignored, "map.ignore"),
        "filter": Setting(values.filtered, "map.filter"),
        "nack": Setting(values.nacks, "map.nack"),
        "temporary_queues": Setting(values.flag, "map.temporary"),
        "route": Setting(values.flag, "map.route"),
        "message_size": Setting(values.count, "map.message_size"),
        "sender_id": Setting(values.header_name, "map.sender_id"),
        "hosts": Setting(values.broker_hosts, "map.hosts"),
    },
    "upstream.NAME.health": {
        "failures": Setting(values.count, "checks.failures"),
        "pause": Setting(values.seconds, "checks.pause"),
        "longest_pause": Setting(values.seconds, "checks.longest_pause"),
        "probe": Setting(values.seconds_or_none, "checks.probe", NOW),
        "destination": Setting(values.destination, "checks.destination", NOW),
    },
    "upstream.NAME.tls": {
        "ca": Setting(values.text, takes=NOW, path=True),
        "certificate": Setting(values.text, takes=NOW, path=True),
        "key": Setting(values.text, takes=NOW, path=True),
        "name": Setting(certificate_name, takes=NOW),
    },
    "route[N]": {**_PATTERN, "upstream": Setting(), "listener": Setting()},
    "move.NAME": {**_PATTERN, "to": Setting(), "listener": Setting()},
    "rule[N]": {
        "action": Setting(values.choice(ACTIONS), "allow", NOW, required=True),
        "send": Setting(values.texts, takes=NOW),
        "subscribe": Setting(values.texts, takes=NOW),
        "user": Setting(values.texts, "users", NOW),
        "group": Setting(values.texts, "groups", NOW),
        "certificate": Setting(values.texts, "certificates", NOW),
        "ack": Setting(values.ack_modes, takes=NOW),
        "headers": Setting(values.header_patterns, takes=NOW),
        "size": Setting(values.size, takes=NOW),
        "name": Setting(values.printable, takes=NOW),
        "listener": Setting(takes=NOW),
    },
    "broker": {
        each.name: Setting(_BROKER.get(each.name, values.count), takes=RESTART) for each in fields(DEFAULTS)
    },
    "journal": {
        "directory": Setting(values.text, takes=RESTART, path=True),
        "relay": Setting(values.text, takes=RESTART),
        "segment_size": Setting(values.count, takes=RESTART),
        "segment_age": Setting(values.seconds, takes=RESTART),
        "queue": Setting(values.count, takes=RESTART),
        "when_full": Setting(values.member(WhenFull), takes=RESTART),
        "flush_interval": Setting(values.seconds_or_none, takes=NOW),
        "sync_interval": Setting(values.seconds_or_none, takes=NOW),
        "bodies": Setting(values.bodies),
        "redact": Setting(values.header_names),
        "retain_age": Setting(values.seconds, takes=NOW),
        "retain_size": Setting(values.count, takes=NOW),
        "capture": Setting(field="rules"),
    },
    "journal.capture[N]": {
        "destination": Setting(values.text, required=True),
        "bodies": Setting(values.bodies, required=True),
    },
    "auth.NAME": {
        "users": Setting(),
        "certificates": Setting(values.flag),
        "token": Setting(field="tokens"),
        "service": Setting(),
        "broker": Setting(values.member(BrokerLogin)),
        "logins": Setting(),
    },
    "auth.NAME.token": {
        "keys": Setting(),
        "algorithms": Setting(values.texts, required=True),
        "audience": Setting(values.texts, required=True),
        "issuer": Setting(values.text),
        "leeway": Setting(values.seconds_or_none),
        "user": Setting(values.text),
        "groups": Setting(values.text),
        "renew": Setting(values.text),
    },
    "auth.NAME.service": {
        "url": Setting(values.service_url, required=True),
        "timeout": Setting(values.seconds),
        "cache": Setting(values.seconds_or_none),
        "cache_entries": Setting(values.count),
    },
}
"""Table -> key -> the key's row. NAME stands for a name of the user's choice, [N] for a number in an array."""


def takes(key: str) -> Takes:
    """Return when a changed setting takes effect. `key` has NAME in place of the name of a listener or an upstream."""
    table, _, name = key.rpartition(".")
    return SETTINGS[table][name].takes


_RECORDS: Final = {
    "admin_tls": "admin_tls",
    "listener.NAME.tls": "tls",
    "listener.NAME.web": "web",
    "upstream.NAME.tls": "tls",
    "auth.NAME.token": "tokens",
    "auth.NAME.service": "service",
}
"""The tables whose values are in a record of their own -> the field that has this record."""


class Held(NamedTuple):
    """A key of a `table`, and the `values` that a record has for it."""

    table: str
    key: str
    row: Setting
    values: list[Any]


def held(table: str, owner: object) -> Iterator[Held]:
    """Yield the keys of a table, and of the tables in it, with their values in the table's record. Keys of tables with
    records of their own, and keys that the record does not have, are left out.
    """
    for place, rows in SETTINGS.items():
        inner = place.startswith(f"{table}.") if table else place in ("limits", "admin_tls")
        record = getattr(owner, _RECORDS[place]) if inner and place in _RECORDS else owner
        if not (inner or place == table) or "[N]" in place or record is None:
            continue
        for key, row in rows.items():
            fields = row.field if isinstance(row.field, tuple) else (row.field or key,)
            whole = f"{place}.{key}".removeprefix(".")
            if not {whole, f"{whole}.NAME", f"{whole}[N]"} & SETTINGS.keys():
                source = record if hasattr(record, fields[0].partition(".")[0]) else owner
                if hasattr(source, fields[0].partition(".")[0]):
                    yield Held(place, key, row, [attrgetter(each)(source) for each in fields])
