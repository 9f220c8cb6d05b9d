"""Many clients at once that say what brokers close connections for: none of them is a shield for another one.

They share the brokers and the clock; what happens to one happens between what happens to the others.
"""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from stomprelay.relay.effects import Open
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.brokers import Watch
from stomprelay.session.effects import Send
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.failing import movable, over, said_welcome
from tests.relay.several import send

MANY: Final = 50
POISON: Final = b"poison"
BAD_CONNECT: Final = SAY_HELLO[b"1.2"].replace(b"host:/\n", b"host:/\nlogin:poison\n")
GOOD: Final = SAY_HELLO[b"1.2"]


class Crowd:
    """Sessions in front of two brokers that close without a word at any frame with `poison` in it, and answer all
    others. `plays` are theirs.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.front = listener(upstream)
        self.plays: list[Playbook] = []
        self.now = 1000.0
        self.watches = [
            Watch(upstream, group, broker, self.now, lambda: 0.5)
            for group in upstream.groups
            for broker in group.brokers
        ]

    def comes(self, said: bytes) -> Playbook:
        """One more client, and what it says behind its connection."""
        play = Playbook(self.front)
        play.time_passes(self.now - play.now)
        play.client_says(said, unasked=True)
        self.plays.append(play)
        return play

    def goes_on(self, seconds: float) -> None:
        """Time passes, by a tenth of a second; in each of them everybody has one turn after the other until nothing is
        left to be done. Once a second brokers are probed that are due.
        """
        for tenth in range(round(seconds * 10)):
            busy = True
            while busy:
                busy = sum(next(self._turn(play), False) for play in self.plays) > 0
            if tenth % 10 == 0:
                self._probe()
            self.now += 0.1
            for play in self.plays:
                play.time_passes(self.now - play.now)

    def _turn(self, play: Playbook) -> Iterator[bool]:
        """One thing that a session's broker does."""
        if not play.brokers or play.broker.closed is not None:
            return
        if not play.broker.accepted:
            play.broker_accepts()
            yield True
        data = play.broker_reads()
        if not data:
            return
        if POISON in data:
            play.broker_goes()
        elif data.startswith(b"CONNECT\n"):
            play.broker_says(said_welcome(b"1.2", "rabbitmq"))
        else:
            for receipt in re.findall(rb"\nreceipt:([^\n]*)\n", data):
                play.broker_says(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
        yield True

    def _probe(self) -> None:
        for watch in self.watches:
            if watch.due(self.now):
                probe = watch.probe(self.now)
                assert any(isinstance(each, Open) for each in probe.begin(self.now))
                assert any(isinstance(each, Send) for each in probe.connected(self.now))
                probe.received(said_welcome(b"1.2", "rabbitmq"), self.now)
                assert probe.well


@pytest.mark.parametrize("beside", ["nobody", "a good session", "good sessions that come and go"])
def test_all_of_them_are_refused(beside: str) -> None:
    """A poison frame or a poison CONNECT from each, at the same time: each costs a few connections, and that is all."""
    crowd = Crowd(movable(confirm=True, options={"startup_attempts": -1}))
    good = [] if beside == "nobody" else [crowd.comes(GOOD)]
    crowd.goes_on(1)
    connects = [crowd.comes(BAD_CONNECT) for _ in range(MANY)]
    frames = [crowd.comes(GOOD) for _ in range(MANY)]
    crowd.goes_on(1)
    for each in frames:
        each.client_says(send(b"1", receipt="1") + send(POISON, receipt="p") + send(b"2", receipt="2"))
    for _ in range(30):
        crowd.goes_on(1)
        if beside == "good sessions that come and go":
            crowd.comes(GOOD).client_goes()
    for each in connects:
        assert over(each)
        assert b"\nmessage:the broker closed the connection when it was sent CONNECT\n" in each.client_reads()
        assert len(each.opened) <= 8
    for each in frames:
        assert over(each)
        said = each.client_reads()
        assert b"\nmessage:a frame cannot be delivered\nreceipt-id:p\n" in said
        assert said.count(b"receipt-id:1\n") == 1
        assert each.counters["possibly_lost"] == 0
        assert len(each.opened) <= 8
    for each in good:
        assert len(each.opened) == 1
        each.both_stay()
        assert each.client_reads().startswith(b"CONNECTED\n")
