"""What a replay was asked for on the command line, and what that means to the tables and to the sink."""

import argparse
import re
from typing import Any, Final

from stomprelay.journal.records import parse_time
from stomprelay.pipeline import options
from stomprelay.pipeline.replay.selection import Selection
from stomprelay.pipeline.replay.state import State
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.values import OptionError
from stomprelay.pipeline.store.volume import absolute

SECOND: Final = 1_000_000
_AGO: Final = re.compile(r"\d.*[smhdw]")
_SINKS: Final = {
    "uri": "--to",
    "path": "--to",
    "destination": "--destination",
    "rate": "--rate",
    "window": "--window",
    "keyheader": "--key-header",
    "login": "--login",
    "passcode": "--passcode-file",
    "password": "--passcode-file",
    "passcodefile": "--passcode-file",
    "host": "--host",
    "progress": "--state",
    "id": "--state",
}
"""The sink's options, in small letters, that have one of ours."""
_SAID: Final = re.compile(r'format "stomp", option ([^:]+): (.*)', re.DOTALL)


def selection(given: argparse.Namespace, now: int) -> Selection:
    """Return which messages the options ask for. Raises `ValueError`."""
    since, until = _time(given.since, "since", now), _time(given.until, "until", now)
    if since is not None and since >= (now if until is None else until):
        raise ValueError("--since is not before " + ("now" if until is None else "--until"))
    renames = tuple((old, new) for old, new in given.rename)
    if len({old for old, _ in renames}) != len(renames):
        raise ValueError("--rename: the same FROM is given twice")
    return Selection(given.where, since, until, given.destination, renames)


def _time(said: str | None, name: str, now: int) -> int | None:
    if said is None:
        return None
    try:
        if _AGO.fullmatch(said):
            return now - round(options.duration(said) * SECOND)
        return parse_time(said) // 1000
    except (ValueError, argparse.ArgumentTypeError):
        raise ValueError(f"--{name}: {said!r} is no time: say 2026-11-21, 2026-11-21T08:00 or 24h") from None


def asked(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options that define this replay: they must be the same again to continue it."""
    return {
        "tables": absolute(given.tables),
        "where": given.where,
        "since": given.since,
        "until": given.until,
        "to": given.to,
        "destination": given.destination,
        "rename": [list(each) for each in given.rename],
        "key_header": given.key_header,
        "skip_incomplete": given.skip_incomplete,
    }


def sink_of(given: argparse.Namespace, state: State) -> Sink:
    """Return how to send. Raises `ValueError` that names our options in place of the sink's."""
    further = dict(given.stomp)
    for name in further:
        if (ours := _SINKS.get(name.lower())) is not None:
            raise ValueError(f"--stomp {name}: say {ours}")
    said: dict[str, str | None] = {
        "uri": given.to,
        "login": given.login,
        "passcodeFile": given.passcode_file,
        "host": given.host,
        "rate": None if given.rate is None else repr(given.rate),
        "window": str(given.window),
        "keyHeader": given.key_header,
        "progress": str(state.progress),
        "persistent": "false",  # messages keep their own header
        **further,
    }
    try:
        sink = Sink.read({name: value for name, value in said.items() if value is not None})
        if launch.is_local(given.master or launch.MASTER):
            sink.connection.upstream()  # its passcode's file, which on a cluster is elsewhere
    except OptionError as error:
        raise ValueError(ours_of(str(error))) from None
    return sink


def ours_of(said: str) -> str:
    """Return the sink's message about one of its options, with the name of the option that the user gave."""
    found = _SAID.fullmatch(said)
    if found is None:
        return said
    return f"{_SINKS.get(found[1].lower(), f'--stomp {found[1]}')}: {found[2]}"
