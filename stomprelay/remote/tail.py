"""`stomprelay tail`: shows the frames of a running relay as they pass."""

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.journal.command import record_lines
from stomprelay.journal.records import Record, records_of
from stomprelay.journal.segment import parse
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.remote.client import AdminClient
from stomprelay.remote.connecting import AdminError
from stomprelay.wire.errors import visible

POLL: Final = 0.25
"""Seconds from one answer to the next request: in between, the relay keeps frames, up to a bound."""

PrintLine = Callable[[str], None]


def watch(
    sessions: Iterable[str], listeners: Iterable[str], destinations: Iterable[str], bodies: int
) -> TailRequest:
    """Return a request under a unique name. An empty list selects all."""
    name = os.urandom(8).hex()
    return TailRequest(name, tuple(sessions), tuple(listeners), tuple(destinations), bodies)


def tail(
    admin: AdminClient,
    request: TailRequest,
    count: int | None,
    print_line: PrintLine,
    remark: PrintLine,
    sleep: Callable[[float], None] = time.sleep,
    *,
    as_json: bool = False,
) -> int:
    """Print what passes until `count` lines were printed or the named sessions have ended; return the exit status.
    `remark` gets gaps. The relay is always told of the end. Raises `AdminError` if there is no such session.
    """
    left = count
    sessions = set(request.sessions)
    answers = 0
    try:
        while True:
            answer = admin.tail(request)
            answers += 1
            for record in sorted(_records(answer), key=lambda each: each.time):
                for line in _lines(record, bodies=request.bodies > 0, as_json=as_json):
                    print_line(line)
                if left is not None:
                    left -= 1
                    if not left:
                        return 0
            for line in _missing(answer, again=answers > 1):
                remark(line)
            for name in _over(answer, sessions, first=answers == 1):
                sessions.remove(name)
                remark(f"... the session ended: {visible(name)}")
                if not sessions:
                    return 0
            sleep(POLL)
    finally:
        if answers:
            _end(admin, request)


def _end(admin: AdminClient, request: TailRequest) -> None:
    try:
        admin.tail(request._replace(over=True))
    except AdminError:
        pass  # it ends by itself, soon


def _over(answer: TailAnswer, sessions: set[str], *, first: bool) -> list[str]:
    """Return which of these sessions have ended. Raises `AdminError` for one that was never there."""
    if answer.missing:
        return []  # whoever did not answer may have them
    over = sorted(sessions.difference(answer.sessions))
    if over and (first or answer.began):
        raise AdminError(f"there is no session {json.dumps(over[0])}")
    return over


def _records(answer: TailAnswer) -> list[Record]:
    found = list(records_of(parse(answer.segment)))
    records = [each for each in found if isinstance(each, Record)]
    if len(records) < len(found):
        raise AdminError("the relay's records cannot be read here: is it of another version?")
    return records


def _lines(record: Record, *, bodies: bool, as_json: bool) -> list[str]:
    if as_json:
        return [json.dumps(record.columns(bodies=bodies), ensure_ascii=False)]
    return list(record_lines(record, bodies=bodies))


def _missing(answer: TailAnswer, *, again: bool) -> list[str]:
    lines = [f"... {name} did not answer" for name in answer.missing]
    if answer.left_out:
        lines.append(f"... {answer.left_out} left out: more passed than is kept until it is asked for")
    if answer.began and again:
        lines.append("... some left out: the relay, or a worker of it, was not asked for long, or is new")
    return lines
