"""The comparison of both sides of a move, as a script: what the journal has, and what NEW delivers."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from stomprelay.journal.schema import Context
from stomprelay.move import compare as m
from stomprelay.move.compare import Compare, Comparison, Counts
from stomprelay.move.consumer import Connect, End, HangUp, Request, Write
from stomprelay.relay.model.group import Group, Reconnect
from stomprelay.relay.model.move import Mark
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.relay.model.upstream import Upstream

A, B = "/queue/a", "/topic/b"
EPOCH = 1000.0
"""The time 0 of the scripts, in seconds since 1970."""


class Script:
    """A comparison of 60 s at a time that the test sets. Clients send to `/queue/...` and `/topic/...`."""

    def __init__(self, *, tries: bool = True) -> None:
        self.now = 0.0
        self.wake = 0.0
        self.did_: list[str] = []
        self.written: list[bytes] = []
        self.compare = Compare(
            [A],
            lambda listener, destination: listener == "public" and destination != "/queue/other",
            Upstream("new", (Group("", (), Reconnect(initial_delay=1.0, jitter=0) if tries else None),)),
            lambda end: RABBITMQ,
            epoch=EPOCH,
        )
        self.does("begun")
        self.connects()

    def does(self, what: str, *facts: Any) -> None:
        """Something happens."""
        requests: Sequence[Request] = getattr(self.compare, what)(*facts, self.now)
        for each in requests:
            match each:
                case Write(_, data):
                    self.written += re.findall(rb"[A-Z]+\n.*?\n\n[^\0]*\0", data, re.DOTALL)
                case Connect() | HangUp():
                    self.did_.append(type(each).__name__)
        self.wake = self.compare.wakes_at
        if self.compare.done:
            self.did_.append("done")

    def connects(self) -> None:
        """NEW accepts."""
        self.does("opened", End.NEW)
        self.says(b"CONNECTED\nversion:1.2\n\n\0")

    def says(self, frame: bytes) -> None:
        """NEW says something."""
        self.does("received", End.NEW, frame)

    def subscribes(self, number: int = 0) -> None:
        """NEW confirms a subscription."""
        self.says(b"RECEIPT\nreceipt-id:%d\n\n\0" % number)

    def told(self) -> list[bytes]:
        """Take what NEW was told since the last look."""
        told, self.written = self.written, []
        return told

    def records(self, command: str, number: int = 0, session: str = "s", **headers: str) -> None:
        """The journal has a frame of a client, sent now."""
        context = Context("public", session, "127.0.0.1:1", "alice", "client", "", "", "1.2")
        self.does("recorded", context, number, command, headers, EPOCH + self.now)

    def sends(self, number: int, destination: str = A, **headers: str) -> None:
        """The journal has a SEND."""
        self.records("SEND", number, destination=destination, **headers)

    def comes(self, number: int, more: bytes = b"", *, body: bytes = b"x", id: int = 0) -> None:
        """NEW delivers the copy of a SEND with the body `x`."""
        mark = Mark.of(b"s", number, b"x").value
        head = b"subscription:%d\nmessage-id:m\nack:a-%d\nrelay-copy:%b\n%b" % (id, number, mark, more)
        self.says(b"MESSAGE\n%b\n%b\0" % (head, body))

    def passes(self, seconds: float) -> None:
        """Time does, and all of the journal is read."""
        self.now += seconds
        self.does("read")

    def ends(self) -> list[Counts]:
        """The time is over. Return the counts."""
        self.passes(61)
        self.passes(m.PATIENCE)
        assert self.told()[-1] == b"DISCONNECT\nreceipt:bye\n\n\0"
        self.says(b"RECEIPT\nreceipt-id:bye\n\n\0")
        assert self.did_[-2:] == ["HangUp", "done"]
        return self.compare.comparison.counts


def counts(destination: str = A, **more: Any) -> Counts:
    """The counts of the only producer."""
    return Counts(destination, "alice", **more)


def test_both_sides_are_the_same() -> None:
    """Whichever of a SEND and its copy is read first; each copy is acknowledged."""
    script = Script()
    script.subscribes()
    script.sends(1)
    script.now += 0.5
    script.comes(1)
    script.comes(2)
    script.sends(2)
    script.sends(3, "/queue/other")
    assert b"ACK\nid:a-2\n\n\0" in script.told()
    [found] = script.ends()
    assert found == counts(sent=2, same=2, lag=0.5)
    assert found.equal


def test_what_can_go_wrong() -> None:
    """Another body, none, two, in another order."""
    script = Script()
    script.subscribes()
    for number in range(1, 6):
        script.sends(number)
    script.comes(1, body=b"y")
    script.comes(3)
    script.comes(2)
    script.comes(5)
    script.comes(5)
    assert script.ends() == [counts(sent=5, same=3, other=1, missing=1, twice=1, late=1)]


def test_a_copy_that_is_marked_may_come_again() -> None:
    """By the broker or by the relay; it is no copy in the wrong order then."""
    script = Script()
    script.subscribes()
    script.sends(1)
    script.sends(2)
    script.comes(2)
    script.comes(1, b"relay-resent:true\n")
    script.comes(2, b"redelivered:true\n")
    [found] = script.ends()
    assert found == counts(sent=2, same=2, marked=1)
    assert found.equal


def test_what_was_sent_before() -> None:
    """It counts from the first copy of its session on: earlier ones may have been taken away by another comparison."""
    script = Script()
    for number in (1, 2, 3, 4):
        script.sends(number)
    script.now = 100.0
    script.subscribes()
    script.comes(2)
    script.comes(4)
    assert script.ends() == [counts(sent=3, same=2, missing=1)]


def test_a_destination_that_the_journal_shows() -> None:
    """It is subscribed to; a topic needs no ACKs, and gives its messages to others as well."""
    script = Script()
    assert re.findall(rb"destination:(.*)\nack:(.*)\n", b"".join(script.told())) == [
        (A.encode(), b"client-individual")
    ]
    script.sends(1, B)
    script.sends(2, B)
    assert re.findall(rb"destination:(.*)\nack:(.*)\n", b"".join(script.told())) == [(B.encode(), b"auto")]
    script.now = 1.0
    script.subscribes(1)
    script.sends(3, B)
    script.comes(3, id=1)
    assert script.ends() == [counts(B, sent=1, same=1)]


def test_transactions() -> None:
    """What was aborted was not sent, and what is open has no copy yet."""
    script = Script()
    script.subscribes()
    for number, name in enumerate(("aborted", "committed", "open"), 1):
        script.sends(number, transaction=name)
    script.records("ABORT", transaction="aborted")
    script.records("COMMIT", transaction="committed")
    assert script.ends() == [counts(sent=1, missing=1)]
    script = Script()
    script.sends(1, transaction="t")
    script.records("vanished")
    script.subscribes()
    assert script.ends() == []


def test_what_is_no_copy_stays() -> None:
    """It gets no ACK, so the broker has it again."""
    script = Script()
    script.told()
    script.says(b"MESSAGE\nsubscription:0\nmessage-id:m\nack:a\nrelay-copy:s-7\n\nx\0")
    assert not script.told()
    assert script.compare.others == {A: 1}


def test_a_copy_without_a_send() -> None:
    """It is unknown as soon as the journal was read for long after it came."""
    script = Script()
    script.comes(7)
    script.passes(m.PATIENCE - 1)
    assert script.compare.comparison.unknown == 0
    script.passes(2)
    assert script.compare.comparison.unknown == 1
    assert script.ends() == []


def test_new_is_lost() -> None:
    """It is tried again, and has the same subscriptions; or the comparison ends, if that is not allowed."""
    script = Script()
    script.says(b"ERROR\nmessage:connection to the broker was lost\n\n\0")
    script.does("lost", End.NEW, "it left")
    script.now = script.wake
    script.told()
    script.does("woke")
    script.connects()
    assert script.did_ == ["Connect", "Connect"]
    assert [each.split(b"\n")[0] for each in script.told()] == [b"CONNECT", b"SUBSCRIBE"]
    script = Script(tries=False)
    script.does("lost", End.NEW, "it left")
    assert script.did_[-1] == "done"
    assert script.compare.reason == "the new broker: it left"


def test_new_refuses() -> None:
    """The reason is in its words."""
    script = Script()
    script.says(b"ERROR\nmessage:access_refused\n\nno such thing\0")
    assert script.did_[-2:] == ["HangUp", "done"]
    assert script.compare.reason == "the new broker: access_refused: no such thing"


def test_the_journal_cannot_be_read() -> None:
    """Nothing can be told."""
    script = Script()
    script.does("unreadable", "no such folder")
    assert (script.did_[-1], script.compare.reason) == ("done", "no such folder")


def test_ctrl_c_ends_it_as_its_time_does() -> None:
    """What was sent before is waited for, but not for ever."""
    script = Script()
    script.subscribes()
    script.sends(1)
    script.passes(1)
    script.does("stopped", "the command was interrupted")
    script.passes(m.FLUSHED + 1)
    script.told()
    script.sends(2)
    script.comes(1)
    script.passes(0.1)
    assert script.told()[-1].startswith(b"DISCONNECT\n")


def test_what_waits_is_taken_first() -> None:
    """At the end SENDs are missing only when for some time no more of their copies came."""
    script = Script()
    script.subscribes()
    for number in range(1, 5):
        script.sends(number)
    script.passes(61)
    for number in (1, 2, 3):
        script.passes(m.PATIENCE - 1)
        script.comes(number)
    script.told()
    script.passes(1)
    assert not script.told()
    script.passes(m.PATIENCE)
    assert script.told()
    script.says(b"RECEIPT\nreceipt-id:bye\n\n\0")
    [found] = script.compare.comparison.counts
    assert (found.same, found.missing) == (3, 1)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """NEW is not read from while too many copies wait for the journal; what was given up is counted."""
    comparison = Comparison(4)
    for number in range(1, 7):
        mark = Mark.of(b"s", number, b"")
        comparison.came(mark, A, same=True, again=False, at=0.0)
    assert comparison.crowded
    assert not comparison.ahead
    assert comparison.uncompared == 2
    comparison = Comparison(4)
    comparison.watched(A, 0.0)
    for number in range(1, 7):
        comparison.sent(("s", number), A, "alice", None, 1.0)
    assert (comparison.uncompared, comparison.ahead) == (2, True)
    comparison.came(Mark.of(b"s", 1, b""), A, same=True, again=False, at=1.0)
    assert (comparison.uncompared, comparison.counts) == (3, [])
    monkeypatch.setattr(m, "PRODUCERS", 1)
    monkeypatch.setattr(m, "SESSIONS", 1)
    comparison = Comparison()
    for name in ("s", "t", "u"):
        comparison.sent((name, 1), A, name, None, 1.0)
        comparison.came(Mark.of(name.encode(), 1, b""), A, same=True, again=False, at=1.0)
    assert [(each.producer, each.sent) for each in comparison.counts] == [("(other producers)", 2), ("s", 1)]
