"""`stomprelay move`: the commands that move clients, and what waits, from one product's brokers to another's.

`check` says what a move would change, and `precheck` finds it out. `phases` has the commands that lead a move through
its phases. `compare` looks whether both sides got the same. `drain` empties queues of the old brokers.
"""

from stomprelay.cli.asking import Commands, command
from stomprelay.cli.move import check, compare, drain, phases

_ABOUT = "Moves clients from the brokers of one product to those of another. Clients are not changed."


def add(commands: Commands) -> None:
    """Add the command and its own commands."""
    move = command(commands, "move", "move to brokers of another product", _ABOUT)
    moves = move.add_subparsers(dest="move", required=True, metavar="COMMAND")
    for each in (check, phases, compare, drain):
        each.add(moves)
