"""What a folder of tables says of itself, so that a run with another format, or of another release, does not mix with
it: a small file of JSON beside the tables.
"""

import json
from typing import Final, NamedTuple

NAME: Final = "_layout"
VERSION: Final = 2
"""Of how the tables lie on disk. Those of version 1 have no such file."""
LOG: Final = "_delta_log"
"""The folder of a Delta table's log."""
FORMATS: Final = ("parquet", "orc", "delta")
"""Formats of tables, as Spark calls them. The first is the default, and needs nothing but what PyPI has."""


class Layout(NamedTuple):
    """What the file says."""

    version: int
    format: str


def text(form: str) -> str:
    """Return the file's text for tables of this format, as this release makes them."""
    return json.dumps(Layout(VERSION, form)._asdict()) + "\n"


def told(said: str | None) -> Layout | None:
    """Return what the file's text says; None where there is no file. Of a text that is not understood, a layout that
    is none of ours.
    """
    if said is None:
        return None
    try:
        found = json.loads(said)
        return Layout(int(found["version"]), str(found["format"]))
    except (ValueError, KeyError, TypeError):
        return Layout(0, "")


def unlike(there: Layout, form: str, root: str) -> str:
    """Return why tables of this layout cannot be used as those of the format `form`, a sentence for the user; empty if
    they can.
    """
    if there.version > VERSION or not there.format:
        return f"the tables in {root} were made by a newer stomprelay than this"
    if there.version < VERSION:
        return older(root)
    if there.format != form:
        return f"the tables in {root} are of format {there.format}, not {form}: say that one, or none"
    return ""


def older(root: str) -> str:
    """Return what the user is told whose tables a run cannot go on with."""
    return (
        f"the tables in {root} were made by an older stomprelay, which wrote them otherwise: they can be read, not "
        "gone on with. Remove them with their checkpoint, or name another folder by --tables; the journal has it all"
    )
