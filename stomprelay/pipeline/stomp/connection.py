"""Where to connect, and how: the options that reading and writing have in common.

uri, or the path given to load, save or start
    A broker or a relay, in the notation of the relay's configuration: `tcp://host:61613`, `ssl://host:61614`,
    `failover:(...)`, `fanout:(...)`. Not `memory:`, and no endpoint that only Twisted knows. A plain address ends the
    query with its broker; `failover:(tcp://host:61613)` waits for it.
login, password
    Credentials; the password is STOMP's passcode. Spark shows the options of a stream in its plans and hides those
    that are called password, so this one is: as `passcode` it is refused.
passcodeFile
    In place of password the file that holds it, read where the connection is made: on the driver to read, on
    executors to write.
host
    The virtual host; `/` where it is not said.
clientId
    `client-id` of CONNECT. Of several connections the second has `-1` behind it, the third `-2`, and so on.
profile, versions, policy
    As `upstream.NAME.profile`, `versions` (between commas) and `policy` of the relay's configuration.
heartBeatMs (10000)
    How often we beat and want the broker to; 0 is never.
connectTimeoutMs (10000)
    For one broker to answer.
timeoutMs (120000)
    For the first broker to be had, for a receipt, and for DISCONNECT.
tls.ca, tls.certificate, tls.key, tls.name
    PEM files, and the name to verify in place of the host's. Without `tls.ca` it is the platform's trust.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stomprelay.config import upstream as config
from stomprelay.config.table import ConfigError, Table
from stomprelay.pipeline.stomp.client import Client
from stomprelay.pipeline.stomp.dial import Unreachable, reach
from stomprelay.pipeline.stomp.words import Words, listed, number, text, wrong
from stomprelay.relay.model.upstream import Upstream

_NAMES: Final = {
    "passcode": "password",
    "passcode_file": "passcodeFile",
    "heart_beat": "heartBeatMs",
    "connect_timeout": "connectTimeoutMs",
}
"""Keys of an upstream's table that are called otherwise here."""
_ROOT: Final = "stomp"


@dataclass(frozen=True)
class Connection:
    """A place and how to behave there. `values` are those of an upstream's table, its secrets included; `timeout` is
    in seconds.
    """

    values: Mapping[str, Any] = field(repr=False)
    client_id: str | None
    timeout: float

    @classmethod
    def read(cls, words: Words, confirmed: Mapping[str, Any]) -> "Connection":
        """From options. `confirmed` are further values for lists of brokers. Raises `OptionError` for what can be
        seen to be wrong on any machine.
        """
        uri, path = words.get("uri", text), words.get("path", text)
        if uri is not None and path is not None and uri != path:
            raise wrong("uri", "is said twice, as an option and as the path")
        place = uri or path
        if place is None:
            raise wrong("uri", "is missing: tcp://host:61613, ssl://host:61614 or failover:(tcp://a,tcp://b)")
        values: dict[str, Any] = {"uri": place}
        if "passcode" in words:
            raise wrong("passcode", "would be shown in Spark's plans: call it password, or say passcodeFile")
        for key in ("login", "passcode", "host", "profile", "policy"):
            if (said := words.get(_NAMES.get(key, key), str)) is not None:
                values[key] = said
        if (file := words.get("passcodeFile", text)) is not None:
            values["passcode_file"] = file
        if (versions := words.get("versions", listed)) is not None:
            values["versions"] = list(versions)
        beat = words.get("heartBeatMs", number(0), 10000)
        values["heart_beat"] = [beat, beat]
        values["connect_timeout"] = words.get("connectTimeoutMs", number(1), 10000) / 1000
        secured = {key: words.get(f"tls.{key}", text) for key in ("ca", "certificate", "key", "name")}
        if tls := {key: value for key, value in secured.items() if value is not None}:
            values["tls"] = tls
        if place.lower().startswith(("failover:", "fanout:")):
            values |= confirmed
        made = cls(values, words.get("clientId", text), words.get("timeoutMs", number(1), 120_000) / 1000)
        made._check()
        return made

    def _check(self) -> None:
        values = dict(self.values)
        if values.pop("passcode_file", None) is not None:
            if "passcode" in values:
                raise wrong("passcodeFile", "excludes password: say one of them")
            values["passcode"] = ""  # the file may be on other machines
        for broker in _upstream(values).brokers:
            try:
                reach(broker)
            except Unreachable as error:
                raise wrong("uri", str(error)) from None

    def upstream(self) -> Upstream:
        """As the relay's core takes it; the passcode's file is read. Raises `OptionError`."""
        return _upstream(self.values)

    def client(self, role: str, number: int = 0) -> Client:
        """A client for one of several connections, to be connected. Raises `OptionError`."""
        named = self.client_id
        if named is not None and number:
            named = f"{named}-{number}"
        try:
            return Client(self.upstream(), role, client_id=named)
        except Unreachable as error:
            raise wrong("uri", str(error)) from None


def _upstream(values: Mapping[str, Any]) -> Upstream:
    try:
        return config.read(Table(_ROOT, os.getcwd(), {_ROOT: values}).table(_ROOT))
    except ConfigError as error:
        said = str(error).removeprefix(f"{_ROOT}: {_ROOT}").removeprefix(".")
        key, _, text = said.partition(": ")
        raise wrong(_NAMES.get(key, key), text) from None
