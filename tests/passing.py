"""What rules let pass, found frame by frame: a reference for the scanner, and the service's part in scripts."""

import struct
from collections.abc import Iterator

from stomprelay.relay.effects import Pass
from stomprelay.relay.model.rules import OCTETS
from stomprelay.session.leg import EXPECTED, Leg
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import CONTENT_LENGTH
from stomprelay.wire.run import Passing, Rule, Rules, Run


def letting(*rules: Rule) -> Passing:
    """Return what lets pass all that these rules do."""
    return Passing(rules, lambda run: True)


def barred(rule: Rule, frame: Frame) -> bool:
    """Whether a frame has a header for which the rule wants it looked at."""
    lines = frame.data[frame.head - 1 : frame.body]
    if rule.sure and _unsure(rule, [line.partition(b":")[0] for line in lines.split(b"\n") if b":" in line]):
        return True
    return any(b"\n" + (name if b":" in name else name + b":") in lines for name in rule.unless)


def _unsure(rule: Rule, names: list[bytes]) -> bool:
    """Whether a broker may read one of these names of headers as one that matters, which it is not, or not alone."""
    folded = [name.strip(OCTETS).lower() for name in names]
    matters = [*rule.wants, CONTENT_LENGTH]
    unless = [name.partition(b":")[0].lower() for name in rule.unless]
    blank = any(name != name.strip(OCTETS) for name in names)
    return (
        blank
        or any(name in folded for name in unless)
        or any(folded.count(name.lower()) != min(names.count(name), 1) for name in matters)
    )


def wanted(rule: Rule, frame: Frame) -> list[bytes | None] | None:
    """Return what a rule wants of a frame, None for a header that is not there; None where it does not pass."""
    if frame.command != rule.command or (rule.plain and not frame.plain):
        return None
    if barred(rule, frame):
        return None
    values = [frame.raw(name) for name in rule.wants]
    return None if rule.needs and None in values else values


def split(run: Run, decoder: Decoder) -> list[Frame]:
    """Return the frames of a run that came from this decoder, one by one."""
    fresh = Decoder(decoder.dialect, frozenset({run.command}), decoder.limits)
    fresh.feed(run.wire)
    found = []
    for frame in fresh.frames():
        start, head, body = (run.start + at for at in (frame.start, frame.head, frame.body))
        end, after = run.start + frame.end, run.start + frame.after
        found.append(Frame(frame.command, run.data, start, head, body, end, after, frame.plain, frame.memo))
    return found


def run_of(rule: Rule, frames: list[Frame]) -> Run:
    """Return frames that a rule lets pass, which stand back to back, as a run."""
    lists = [[value for value in wanted(rule, frame) or () if value is not None] for frame in frames]
    first, last = frames[0], frames[-1]
    values = b"".join([value + b"\n" for each in lists for value in each])
    plain, count = all(frame.plain for frame in frames), len(frames)
    run = Run(rule, first.data, first.start, last.after, count, last.start, last.head, values, plain)
    if rule.parts:
        run.parts = bytearray().join(
            [struct.pack("nnn", frame.head, frame.body, frame.after) for frame in frames]
        )
    return run


def runs_of(frames: list[Frame], rules: Rules) -> Iterator[Run]:
    """Return the runs that these frames begin with, up to the first that does not pass."""
    ruled = {rule.command: rule for rule in rules}
    run: list[Frame] = []
    for frame in frames:
        rule = ruled.get(frame.command)
        if rule is None or wanted(rule, frame) is None:
            break
        if run and run[0].command != frame.command:
            yield run_of(ruled[run[0].command], run)
            run = []
        run.append(frame)
    if run:
        yield run_of(ruled[run[0].command], run)


def whole_frames(chunk: bytes, leg: Leg) -> list[Frame]:
    """Return the frames that a chunk begins with, back to back, as the leg would read them."""
    fresh = Decoder(leg.dialect, EXPECTED[leg.side, leg.state], leg.decoder.limits)
    found: list[Frame] = []
    try:
        fresh.feed(chunk)
        for frame in fresh.frames():
            if frame.start != (found[-1].after if found else 0):
                break
            found.append(frame)
    except StompError:
        pass  # whoever is given the rest says so
    return found


def passed_on(chunk: bytes, order: Pass) -> tuple[int, int, bytes]:
    """Return how much of a chunk passes as a `Pass` says, its frames and its bytes, and what goes out for it. Who
    counts is told of them.
    """
    frames, size, out = 0, 0, b""
    if order.passing is not None and not (order.trails and chunk.endswith(b"\0")):
        for run in runs_of(whole_frames(chunk, order.leg), order.passing.rules):
            if not order.passing.takes(run):
                break
            frames += run.count
            size = run.after
            out += (run.instead or run).wire
    return frames, size, out
