"""docs/pipeline.md has every option of every command, in the words of `--help`."""

import argparse
import re
from pathlib import Path
from typing import Any

from stomprelay.pipeline import cli

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "pipeline.md"


def options() -> list[tuple[str, str, str]]:
    """Each option, the commands that have it, and what they say of it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in cli.COMMANDS:
        (commands,) = (
            action
            for action in cli._parser([name])._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        parser: Any = commands.choices[name]
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction):
                flag = action.option_strings[-1] if action.option_strings else action.metavar
                found.setdefault((flag, action.help % vars(action)), []).append(name)
    return [(flag, ", ".join(names), says) for (flag, says), names in found.items()]


def test_every_option_is_in_the_manual() -> None:
    """The table between the marks is that of the code, no more and no less."""
    table = MANUAL.read_text(encoding="utf-8").partition("<!-- options:begin -->\n")[2]
    told = re.findall(
        r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", table.partition("<!-- options:end -->")[0], re.MULTILINE
    )
    assert told == options()
