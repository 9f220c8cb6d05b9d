"""Pipes, compiled: frames pass from one socket to another without the core. Where nothing is compiled all passes the
core.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from stomprelay.journal.capture import LegRecorder
from stomprelay.service.connection.protocol import COMPILED, LegProtocol
from stomprelay.session.leg import EXPECTED
from stomprelay.session.session import Session
from stomprelay.wire import decoder
from stomprelay.wire.run import Passing

if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe


PIPE: Final["type[Pipe] | None"] = None if COMPILED is None else COMPILED.Pipe


class Recording(NamedTuple):
    """How what passes is recorded: `recorder` gets the runs of a chunk, `record` is called when it has passed."""

    recorder: LegRecorder
    record: Callable[[LegRecorder], None]


def make_pipe(
    source: LegProtocol,
    target: LegProtocol,
    passing: Passing,
    trails: bool,
    failed: Callable[[Exception], None],
    recording: Recording | None = None,
    session: Session | None = None,
) -> "Pipe | None":
    """Return a pipe for the frames that may pass from one leg to another, to be opened next; None where there can be
    none.
    """
    if PIPE is None or decoder.SCANNER is None or source.socket() is None:
        return None
    leg, reads = source.leg, source.leg.decoder
    keep = None if recording is None else recording.recorder.keep
    scanner = decoder.SCANNER(reads.limits, reads.dialect, EXPECTED[leg.side, leg.state], passing.rules, keep)
    runtime = source.runtime
    takes, counter = passing.takes, None if session is None else runtime.tallies.counter
    return PIPE(
        source, target, scanner.scan, takes, trails, runtime.seconds, failed, recording, counter, session
    )
