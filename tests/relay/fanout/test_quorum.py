"""What a quorum confirms, groups that are given up, and receipts whatever happens."""

import re
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.relay.fanout.quorum import Confirmation, Confirmations, Outcome
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event
from tests.playbook import listener
from tests.relay.several import SOON, begun, comes, fan_out, fanned, receipt, send

ANSWERS = ("confirm", "release", "refuse")


# Confirmations


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"]), st.sampled_from(ANSWERS)), max_size=60
    ),
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_confirmations_of_few_ids(answers: list[tuple[int, str, str]], asked: list[tuple[str, int]]) -> None:
    """In any order of answers each is decided at most once, and never passes without its quorum."""
    confirmations: Confirmations[int] = Confirmations()
    every = [Confirmation(id.encode(), range(3), quorum, crucial=True) for id, quorum in asked]
    for confirmation in every:
        confirmations.ask(confirmation)
    decided: list[Confirmation[int]] = []
    given_answers: dict[tuple[int, str], list[str]] = {}
    for party, id, answer in answers:
        given_answers.setdefault((party, id), []).append(answer)
        done = getattr(confirmations, answer)(party, id.encode())
        if done is not None:
            decided.append(done)
    assert len(decided) == len(set(map(id_of, decided)))
    assert confirmations.pending == sum(each.outcome is Outcome.OPEN for each in every)
    for id in ("x", "y"):
        for place, confirmation in enumerate([each for each in every if each.receipt == id.encode()]):
            answered = [given_answers.get((party, id), []) for party in range(3)]
            mine = [each[place] for each in answered if len(each) > place]
            if confirmation.outcome is Outcome.PASSED:
                assert mine.count("refuse") <= 3 - confirmation.quorum
                assert mine.count("confirm") >= confirmation.quorum or len(mine) == 3
            if confirmation.outcome is Outcome.FAILED:
                assert 3 - mine.count("refuse") < confirmation.quorum


def id_of(confirmation: Confirmation[int]) -> int:
    """Confirmations are told apart as objects, whatever their receipts."""
    return id(confirmation)


# Groups that are given up


def test_a_group_that_is_needed_is_given_up() -> None:
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
    play.broker_says(receipt("2"), at="b")
    data = play.client_reads()
    assert data.startswith(b"ERROR\nmessage:the quorum cannot be reached\nreceipt-id:1\n")
    why = b"(none could be had in 1 attempt)"
    assert b"upstream main needs 2 of 3 groups; failed: main-1 %b, main-3 %b" % (why, why) in data
    play.client_is_closed()
    play.broker_is_closed(at="b")
    assert play.counters["sessions_given_up"] == 1


def test_a_frame_that_the_next_broker_cannot_be_sent() -> None:
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


# Whatever happens


_FRAME = re.compile(rb"([A-Z]+)\n(.*?)\n\n(.*?)\0\n?", re.DOTALL)
_RECEIPT = re.compile(rb"(?:^|\n)receipt:([^\n]*)")


class Brokers:
    """Brokers that confirm, refuse, take nothing and go as they are told, and what is true of them all the time."""

    def __init__(self, count: int, quorum: int, *, confirm: bool) -> None:
        self.hosts = "abc"[:count]
        self.quorum = quorum
        self.play = fanned(count, quorum, confirm=confirm, resend_buffer=100_000)
        self.up = set(self.hosts)
        self.blocked: set[str] = set()
        self.owing: dict[str, list[bytes]] = {host: [] for host in self.hosts}
        self.had: dict[str, list[bytes]] = {host: [] for host in self.hosts}
        self.confirmed: dict[bytes, set[str]] = defaultdict(set)
        self.refused: dict[bytes, set[str]] = defaultdict(set)
        self.asked: list[bytes] = []
        self.sent = 0
        self.answered: list[bytes] = []
        self.error: bytes | None = None
        self.late: dict[str, list[bytes]] = {host: [] for host in self.hosts}
        self.ending = False  # so many brokers refused a receipt that the session ends

    def look(self) -> None:
        """Read what the brokers and the client were sent."""
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
            assert named[1] in self.asked, "it was not asked for"
            assert named[1] not in self.answered, "answered twice"
            assert len(self.confirmed[named[1]]) >= self.quorum, "answered too early"
            self.answered.append(named[1])
        if self.error:
            assert len(self.hosts) - len(self.refused[self.error]) < self.quorum, "given up too early"

    def send(self, receipt: bool) -> None:
        """The client sends something."""
        if self.ending or self.play.client.paused:
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
            self.confirmed[id].add(host)
            self.play.broker_says(receipt(id.decode()), at=host)
        elif id in self.asked:
            self.refused[id].add(host)
            self.ending = self.ending or len(self.hosts) - len(self.refused[id]) < self.quorum
            self.play.broker_says(b"ERROR\nreceipt-id:%b\nmessage:no\n\n\0" % id, at=host)
        else:
            self.late[host].append(id)  # only the relay had asked for it

    def goes(self, host: str) -> None:
        """A broker is lost."""
        if host in self.up and not self.ending:
            self.up.discard(host)
            self.blocked.discard(host)
            self.owing[host].clear()
            self.late[host].clear()
            self.play.broker_goes(at=host)

    def comes(self, host: str) -> None:
        """It is back."""
        if host not in self.up and not self.ending:
            while self.play.at(host).closed is not None:  # with each failure the relay waits longer
                self.play.time_passes(SOON)
            comes(self.play, host)
            self.up.add(host)

    def blocks(self, host: str, blocked: bool) -> None:
        """A broker's connection takes no more, or does again."""
        if host in self.up and not self.ending and (host in self.blocked) is not blocked:
            (self.blocked.add if blocked else self.blocked.discard)(host)
            (self.play.broker_is_blocked if blocked else self.play.broker_is_unblocked)(at=host)

    def heals(self) -> None:
        """All brokers are there, can be written to, and confirm all that was asked."""
        for host in self.hosts:
            self.blocks(host, blocked=False)
            self.comes(host)
            for id in self.late[host]:
                self.play.broker_says(receipt(id.decode()), at=host)
        self.look()
        while self.error is None and any(self.owing.values()):
            for host in self.hosts:
                self.answers(host, "confirm")
            self.look()
        if self.ending and self.error is None:
            self.play.time_passes(Upstream.disconnect_timeout)
            self.look()


HOSTS = st.sampled_from("abc")
DEEDS = st.one_of(
    st.tuples(st.just("send"), st.booleans()),
    st.tuples(
        st.sampled_from(["confirm", "confirm", "confirm", "refuse", "goes", "comes", "block", "free"]), HOSTS
    ),
)


@settings(max_examples=3 * settings().max_examples)
@given(st.sampled_from([(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]), st.booleans(), st.lists(DEEDS, max_size=40))
def test_receipts_whatever_happens(
    size: tuple[int, int], confirm: bool, deeds: list[tuple[str, str | bool]]
) -> None:
    """Each once, with its quorum, and none is forgotten; no group that stays misses what it was to have."""
    brokers = Brokers(*size, confirm=confirm)
    for what, which in deeds:
        if what == "send":
            brokers.send(bool(which))
        elif isinstance(which, str) and which in brokers.hosts:
            host = which
            match what:
                case "confirm" | "refuse":
                    brokers.answers(host, what)
                case "goes":
                    brokers.goes(host)
                case "comes":
                    brokers.comes(host)
                case _:
                    brokers.blocks(host, blocked=what == "block")
        brokers.look()
    brokers.heals()
    assert (brokers.error is not None) is brokers.ending
    if brokers.ending:
        return
    assert sorted(brokers.answered) == sorted(brokers.asked)
    assert brokers.play.counters["fanout_overflowed"] == 0
    everything = [b"%d" % (number + 1) for number in range(brokers.sent)]
    missing = 0
    for host in brokers.hosts:
        lost = [body for body in everything if body not in brokers.had[host]]
        missing += len(lost)
        assert brokers.had[host] == [body for body in everything if body not in lost], "out of order"
    assert missing <= brokers.play.counters["possibly_lost"]
    assert not confirm or not missing
