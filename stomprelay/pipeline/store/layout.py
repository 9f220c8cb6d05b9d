"""How tables are on disk: the folders of an hour, and a small JSON file beside the tables. The file says which layout
and format the tables have, so that a run with another format, or of another release, does not mix with them.

An hour has a name, such as `2026-11-21-08`, so that names sort by time. The folders of an hour are named by the columns
`date` and `hour`, in the spelling of Spark and Delta Lake. So engines that find folders by themselves can read the
tables.
"""

import json
import re
from typing import Final, NamedTuple

from stomprelay.pipeline.store.volume import absolute, local

NAME: Final = "_layout"
VERSION: Final = 5
"""The number of the present layout. Layout 1 has no layout file. Before layout 3 there was only a folder `hour`,
before layout 4 waits were kept as slices, and before layout 5 columns were called `at` and `offset`.
"""
RENAMED: Final = {"at": "seen_at", "offset": "position"}
"""Names of columns, and of fields of structs in columns, in the earlier layout, each with the present name."""
_RENAMED: Final = re.compile(rf"(?<!\w)(`?)({'|'.join(RENAMED.values())})(`?:? )(\w+)(?: NOT NULL)?")
LOG: Final = "_delta_log"
"""The folder of a Delta table's log."""
FORMATS: Final = ("parquet", "orc", "delta")
"""Formats of tables, as Spark calls them. The first is the default, and needs only packages from PyPI."""

HOURS: Final = "date=????-??-??/hour=[0-9]*"
"""The pattern of the folders of all hours of a table."""
BEFORE: Final = "*/hour=*"
"""The pattern of the folders of all hours in layouts 1 and 2."""


def both(schema: str) -> str:
    """Return a schema that has renamed columns under both names, to read files of both layouts."""
    old = {new: old for old, new in RENAMED.items()}
    return _RENAMED.sub(lambda it: f"{it[1]}{it[2]}{it[3]}{it[4]}, {it[1]}{old[it[2]]}{it[3]}{it[4]}", schema)


def place(hour: str) -> str:
    """Return the folder of an hour, relative to the folder of its table."""
    date, _, number = hour.rpartition("-")
    return f"date={date}/hour={int(number)}"


def hour_at(path: str) -> str:
    """Return the name of the hour to whose folder this path belongs."""
    date, _, rest = path.rpartition("date=")[2].partition("/hour=")
    return f"{date}-{int(rest.partition('/')[0]):02d}"


class Layout(NamedTuple):
    """The content of the layout file."""

    version: int
    format: str
    headers: tuple[str, ...] = ()
    """The headers of SENDs that `messages` keeps."""


def text(form: str, headers: tuple[str, ...] = ()) -> str:
    """Return the text of the layout file for tables of this format, as this release writes it."""
    return json.dumps(Layout(VERSION, form, headers)._asdict()) + "\n"


def told(said: str | None) -> Layout | None:
    """Return the layout in a layout file's text. Without a text, return None; for an invalid text, return version 0."""
    if said is None:
        return None
    try:
        found = json.loads(said)
        return Layout(int(found["version"]), str(found["format"]), tuple(map(str, found.get("headers", ()))))
    except (ValueError, KeyError, TypeError):
        return Layout(0, "")


def found(root: str) -> str:
    """Return the format of the tables in a local folder. Without tables, return the default. Needs no Spark."""
    place = local(absolute(root))
    try:
        there = None if place is None else told((place / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        there = None
    return FORMATS[0] if there is None or there.format not in FORMATS else there.format


def unlike(there: Layout, form: str, root: str) -> str:
    """Return a sentence for the user if tables of this layout do not fit the format `form`; else an empty text."""
    if there.version > VERSION or not there.format:
        return f"the tables in {root} were made by a newer stomprelay than this, which has layouts up to {VERSION}"
    if there.version < VERSION - 1:
        return older(root)
    if there.format != form:
        return f"the tables in {root} are of format {there.format}, not {form}: say that one, or none"
    return ""


def older(root: str) -> str:
    """Return the message for a user whose tables have a layout that is no longer read."""
    return (
        f"the tables in {root} are of an older layout than this stomprelay knows, {VERSION - 1} and {VERSION}. Make "
        "them anew from the journal, with another folder by --tables, or migrate them release by release, by "
        "stomprelay-pipeline migrate"
    )
