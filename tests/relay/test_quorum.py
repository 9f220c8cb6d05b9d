"""Groups that fail, and receipts whatever happens."""

import re
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.relay.model.listener import LossPolicy
from stomprelay.session.effects import Event
from tests.playbook import Playbook, listener
from tests.relay.several import SOON, begun, comes, comes_back, copied, fan_out, fanned, receipt, send, tell

# Groups that are given up


def test_a_group_that_gives_up() -> None:
    """The others go on; what it missed is counted, and the log is told."""
    with fanned(options={"attempts": 1}) as play:
        play.client_says(send(b"1", receipt="r"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        play.time_passes(SOON)
        play.broker_refuses(at="a")
        assert "group main-1 is given up: none could be had in 1 attempt" in play.noted(Event.LOST)
        assert play.counters["possibly_lost"] == 1
        assert play.counters["sessions_given_up"] == 0
        play.broker_says(receipt("r"), at="b")
        play.client_gets(receipt("r"))
        play.client_says(send(b"2"))
        play.broker_gets(copied(2, send(b"2")), at="b")


def test_a_group_that_is_needed_gives_up() -> None:
    """The client is told of its oldest receipt, and of the groups that failed alone."""
    play = fanned(3, 2, options={"attempts": 1})
    play.client_says(send(b"1", receipt="1") + send(b"2", receipt="2"))
    for at in "abc":
        play.broker_reads(at=at)
    play.broker_says(receipt("1"), at="b")
    for at in "ac":
        assert play.client.closed is None
        play.broker_goes(at=at)
        play.time_passes(SOON)
        play.broker_refuses(at=at)
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:1\n")
    why = b"(none could be had in 1 attempt)"
    assert b"upstream main needs 2 of 3 groups; failed: main-1 %b, main-3 %b" % (why, why) in data
    play.client_is_closed()
    play.broker_is_closed(at="b")
    assert play.counters["sessions_given_up"] == 1


def test_a_quorum_that_is_gone_while_nobody_asks() -> None:
    """It is told all the same: what comes next could not be confirmed."""
    play = fanned(quorum=2, options={"attempts": 0})
    play.broker_goes(at="a")
    play.time_passes(SOON)
    play.client_gets_error(b"the quorum cannot be reached")


def test_what_is_said_while_a_group_gives_up() -> None:
    """It was taken, so it is answered."""
    play = fanned(quorum=2, options={"timeout": 2.0})
    play.broker_goes(at="a")
    play.client_says(send(b"1", receipt="r"))
    play.broker_gets(copied(1, send(b"1", receipt="r")), at="b")
    play.time_passes(3)
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:r\n")
    assert b"main-1 (none could be had within 2 s)" in data


def test_what_was_asked_of_a_group_that_gives_up() -> None:
    """What does not concern it any more is answered by the others."""
    with fanned(quorum=1, options={"attempts": 0}) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client", receipt="s"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(receipt("s"), at="b")
        play.client_gets(receipt("s"))
        play.client_says(tell(b"UNSUBSCRIBE", id="1", receipt="u"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_goes(at="a")
        play.time_passes(SOON)
        play.broker_says(receipt("u"), at="b")
        play.client_gets(receipt("u"))


def test_an_ack_of_a_group_that_gave_up() -> None:
    """It is stale, and its receipt is given."""
    with fanned(quorum=1, options={"attempts": 0}) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\n\n\0", at="a")
        play.client_reads()
        play.broker_goes(at="a")
        play.time_passes(SOON)
        play.client_says(tell(b"ACK", id="k", receipt="r"))
        play.client_gets(receipt("r"))
        assert play.counters["acks_stale"] == 1


def test_what_the_next_broker_cannot_be_told() -> None:
    """Its group is given up where the others are enough."""
    with begun(listener(fan_out(2), loss=LossPolicy.REJECT)) as play:
        play.broker_goes(at="a")
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\n\n\0")
        play.broker_reads(at="b")
        play.time_passes(SOON)
        comes(play, "a", b"1.0")
        assert "group main-1 is given up: a header cannot be said in the other version there" in play.noted(
            Event.LOST
        )
        assert play.client.closed is None


@pytest.mark.parametrize("quorum", [1, 2])
def test_the_client_goes_while_a_group_is_away(quorum: int) -> None:
    """What it said is brought to a quorum, then the session ends."""
    with fanned(quorum=quorum) as play:
        play.broker_goes(at="a")
        play.client_says(send(b"1", receipt="r"))
        play.broker_gets(copied(1, send(b"1", receipt="r")), at="b")
        play.client_goes()
        play.broker_says(receipt("r"), at="b")
        assert play.relay.over is (quorum == 1)
        if quorum == 2:
            comes_back(play, "a")
            play.broker_gets(copied(1, send(b"1", receipt="r")), at="a")
            play.broker_says(receipt("r"), at="a")
            assert play.relay.over


# Whatever happens

_FRAME = re.compile(rb"([A-Z]+)\n(.*?)\n\n(.*?)\0\n?", re.DOTALL)
_RECEIPT = re.compile(rb"(?:^|\n)receipt:([^\n]*)")


class Crowd:
    """Brokers that confirm, refuse, fall silent and go as they are told, and what can be said of them all the time."""

    def __init__(self, count: int, quorum: int, *, confirm: bool) -> None:
        self.hosts = "abc"[:count]
        self.quorum = quorum
        self.play = fanned(count, quorum, confirm=confirm, resend_buffer=100_000)
        self.up = set(self.hosts)
        self.blocked: set[str] = set()
        self.owing: dict[str, list[bytes]] = {host: [] for host in self.hosts}
        self.had: dict[str, list[bytes]] = {host: [] for host in self.hosts}
        self.agreed: dict[bytes, set[str]] = defaultdict(set)
        self.refused: dict[bytes, set[str]] = defaultdict(set)
        self.asked: list[bytes] = []
        self.sent = 0
        self.answered: list[bytes] = []
        self.error: bytes | None = None

    def look(self) -> None:
        """Read what everybody was written."""
        for host in self.hosts:
            for command, head, body in _FRAME.findall(self.play.broker_reads(at=host)):
                named = _RECEIPT.search(head)
                if named is not None:
                    self.owing[host].append(named[1])
                if command == b"SEND" and body not in self.had[host]:
                    self.had[host].append(body)
        for command, head, _ in _FRAME.findall(self.play.client_reads()):
            named = re.search(rb"receipt-id:([^\n]*)", head)
            if command == b"ERROR":
                self.error = b"" if named is None else named[1]
                continue
            assert command == b"RECEIPT"
            assert named is not None
            assert named[1] in self.asked, "nobody asked for that"
            assert named[1] not in self.answered, "answered twice"
            assert len(self.agreed[named[1]]) >= self.quorum, "answered too early"
            self.answered.append(named[1])
        if self.error:
            assert len(self.hosts) - len(self.refused[self.error]) < self.quorum, "given up too early"

    def send(self, receipt: bool) -> None:
        """The client sends something."""
        if self.error is not None or self.play.client.paused:
            return
        self.sent += 1
        body = b"%d" % self.sent
        if receipt:
            self.asked.append(b"r%d" % self.sent)
            self.play.client_says(send(body, receipt=f"r{self.sent}"))
        else:
            self.play.client_says(send(body))

    def answers(self, host: str, what: str) -> None:
        """A broker gives its next answer."""
        if host not in self.up or not self.owing[host] or self.error is not None:
            return
        id = self.owing[host].pop(0)
        if what == "confirm":
            self.agreed[id].add(host)
            self.play.broker_says(receipt(id.decode()), at=host)
        elif id in self.asked:
            self.refused[id].add(host)
            self.play.broker_says(b"ERROR\nreceipt-id:%b\nmessage:no\n\n\0" % id, at=host)

    def goes(self, host: str) -> None:
        """A broker is lost."""
        if host in self.up and self.error is None:
            self.up.discard(host)
            self.blocked.discard(host)
            self.owing[host].clear()
            self.play.broker_goes(at=host)

    def comes(self, host: str) -> None:
        """It is back."""
        if host not in self.up and self.error is None:
            if self.play.at(host).closed is not None:
                self.play.time_passes(SOON)
            comes(self.play, host)
            self.up.add(host)

    def blocks(self, host: str, blocked: bool) -> None:
        """A broker's connection is full, or not any more."""
        if host in self.up and self.error is None and (host in self.blocked) is not blocked:
            (self.blocked.add if blocked else self.blocked.discard)(host)
            (self.play.broker_is_blocked if blocked else self.play.broker_is_unblocked)(at=host)

    def heals(self) -> None:
        """Everybody is there, listens, and confirms all that was asked."""
        for host in self.hosts:
            self.blocks(host, blocked=False)
            self.comes(host)
        self.look()
        while self.error is None and any(self.owing.values()):
            for host in self.hosts:
                self.answers(host, "confirm")
            self.look()


HOSTS = st.sampled_from("abc")
DEEDS = st.one_of(
    st.tuples(st.just("send"), st.booleans()),
    st.tuples(
        st.sampled_from(["confirm", "confirm", "confirm", "refuse", "goes", "comes", "block", "free"]), HOSTS
    ),
)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]), st.booleans(), st.lists(DEEDS, max_size=40))
def test_receipts_whatever_happens(
    size: tuple[int, int], confirm: bool, deeds: list[tuple[str, str | bool]]
) -> None:
    """Each once, with its quorum, and none is forgotten; no group that stays misses what it was to have."""
    crowd = Crowd(*size, confirm=confirm)
    for what, which in deeds:
        if what == "send":
            crowd.send(bool(which))
        elif isinstance(which, str) and which in crowd.hosts:
            host = which
            match what:
                case "confirm" | "refuse":
                    crowd.answers(host, what)
                case "goes":
                    crowd.goes(host)
                case "comes":
                    crowd.comes(host)
                case _:
                    crowd.blocks(host, blocked=what == "block")
        crowd.look()
    crowd.heals()
    if crowd.error is not None:
        return
    assert sorted(crowd.answered) == sorted(crowd.asked)
    assert crowd.play.counters["fanout_overflowed"] == 0
    everything = [b"%d" % (number + 1) for number in range(crowd.sent)]
    missing = 0
    for host in crowd.hosts:
        lost = [body for body in everything if body not in crowd.had[host]]
        missing += len(lost)
        assert crowd.had[host] == [body for body in everything if body not in lost], "out of order"
    assert missing <= crowd.play.counters["possibly_lost"]
    assert not confirm or not missing
    assert isinstance(crowd.play, Playbook)
