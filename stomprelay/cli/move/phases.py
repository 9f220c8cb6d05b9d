"""`move status`, `next`, `back` and `to`: the phases of moves.

Each asks a running relay.
"""

import argparse

from stomprelay.cli import asking
from stomprelay.cli.asking import Commands, command
from stomprelay.relay.model.move import Phase
from stomprelay.remote import commands as remote

_STATUS = """
Lists the moves of a running relay: the phase of each and when it began; the sessions of its listeners, how many of them
have followed to this phase, wait, stay at OLD because NEW cannot be had, or are older than the move; copies of SENDs,
and what failed at NEW. Below: why a move is stopped, sessions that stay, with the reason, and durable subscribers that
have not been connected in this phase. Exit status: 0; 1 if the relay cannot be asked.
"""
_PHASES = """
  off     everything is at OLD
  shadow  NEW gets a copy of each SEND
  both    subscriptions are at OLD and at NEW, SENDs go to OLD
  new     subscriptions are at OLD and at NEW, SENDs go to NEW
  done    everything is at NEW
"""
_NEXT = """
Begins the next phase of a move. If SENDs are about to go to NEW, all sessions must have followed before, and each
durable subscriber that the relay has met since the move began must have been connected once in this phase. A move that
is stopped, because something went wrong at NEW, has no next phase: go back first. Exit status: 0; 1 if the phase does
not begin, with the reason, or if the relay cannot be asked.
"""
_BACK = """
Begins the phase before, at once. Exit status: 0; 1 if there is none, or if the relay cannot be asked.
"""
_TO = """
Begins any phase of a move, whether or not all sessions can follow, and durable subscribers are away. Each session goes
through the phases between. Exit status: 0; 1 if the relay cannot be asked.
"""


def add(moves: Commands) -> None:
    """Add the commands."""
    asked = [asking.relay_options(), asking.table_options()]
    for name, meaning, description in (
        ("status", "list the moves", _STATUS),
        ("next", "begin the next phase", _NEXT),
        ("back", "begin the phase before", _BACK),
        ("to", "begin any phase", _TO),
    ):
        made = command(moves, name, meaning, description, f"phases:{_PHASES}", asked)
        made.set_defaults(run=_run)
        if name != "status":
            made.add_argument("name", metavar="NAME", help="the move: NAME of [move.NAME]")
    moves.choices["to"].add_argument("phase", choices=[each.value for each in Phase], metavar="PHASE")


def _run(options: argparse.Namespace) -> int:
    """Ask the relay, and return the exit status."""
    relay, order = asking.admin_client(options), options.move
    if order == "status":
        return remote.moves(relay, asking.print_line, as_json=options.json)
    phase = options.phase if order == "to" else order
    return remote.move(relay, options.name, phase, asking.print_line, as_json=options.json)
