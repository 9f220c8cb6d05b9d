"""`explain`: shows how frames are translated."""

import argparse
import sys
from pathlib import Path

from stomprelay.config import ConfigError
from stomprelay.explain import Explanation
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import PROFILES
from stomprelay.wire.dialect import DIALECTS

_EXPLAIN = """
Reads the frames of a conversation, a client's and a broker's in one text, and shows the translation of each between the
two versions: the frame before and after, the steps that changed it, the losses that were counted, or the ERROR that the
client gets. A frame's command shows its sender. A frame that refers to an earlier one (ACK, NACK, UNSUBSCRIBE, MESSAGE)
needs that frame before it. A refused frame has no effect on the frames after it.

In a text without NUL, ^@ stands for it; the last frame needs none. A passcode is not shown. Exit status: 0 if every
frame can be translated, 1 if not.
"""
_EXAMPLE = """
example:
  printf 'SUBSCRIBE\\ndestination:/queue/a\\nack:client\\n' | stomprelay explain --client 1.0 --broker 1.2
"""
_VERSIONS = [version.decode() for version in DIALECTS]


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    explain = commands.add_parser(
        "explain",
        help="show how frames are translated",
        description=_EXPLAIN,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explain.add_argument(
        "--client",
        choices=_VERSIONS,
        help="the client's version; default: what the CONNECT settles, else 1.2",
    )
    explain.add_argument(
        "--broker",
        choices=_VERSIONS,
        help="the broker's version; default: what the CONNECTED settles, else 1.2",
    )
    explain.add_argument(
        "--profile",
        choices=PROFILES,
        default="auto",
        help="the broker's product; default: what CONNECTED shows",
    )
    explain.add_argument(
        "--loss",
        choices=[loss.value for loss in LossPolicy],
        default=LossPolicy.REPLACE.value,
        help="what to do with a value that the other version cannot express; default: %(default)s",
    )
    explain.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: standard input")
    explain.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        text = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{options.file}: cannot be read: {error.strerror}") from None
    explanation = Explanation(
        options.client and options.client.encode(),
        options.broker and options.broker.encode(),
        PROFILES[options.profile],
        LossPolicy(options.loss),
    )
    paragraphs = 0
    for paragraph in explanation.paragraphs(text):
        print(paragraph, end="\n\n")
        paragraphs += 1
    if not paragraphs:
        raise ConfigError(f"{options.file}: there is no frame in it")
    return 1 if explanation.refused else 0
