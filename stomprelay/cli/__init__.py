"""The program `stomprelay`.

`commands` its commands, and those that need nothing else; `configuration` a relay to run or to check, `rules` who
may do what there; `passwd` users who may come in; `asking` the ones that ask a relay that runs.
"""

from stomprelay.cli.commands import main, parser

__all__ = ["main", "parser"]
