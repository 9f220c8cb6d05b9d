"""Frames for which brokers close the connection: they are found, refused to the client, and cost nobody else anything.

`Picky` plays brokers that close without a word at any frame with `poison` in it, and answer all others.
"""

import re

import pytest

from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.resend.resender import WINDOW
from stomprelay.session.effects import Event, How
from tests.playbook import Playbook, in_all_pairs, listener
from tests.relay.failing import client_waits, found, link, moves, over, started
from tests.relay.frames import RECEIPT, send, tell
from tests.relay.several import begun, fan_out, fanned

POISON = send(b"bad", priority="poison", receipt="p")
SAYS_WHY = b"the broker closed the connection twice when it was sent"
CALM = ("rabbitmq", "activemq", "generic")


class Picky:
    """Brokers of one product, all of them alike. `taken` are the bodies of the SENDs that they took, in order."""

    def __init__(self, play: Playbook, product: str = "rabbitmq", version: bytes = b"1.2") -> None:
        self.play = play
        self.product = product
        self.version = version
        self.taken: list[bytes] = []
        self.rest = b""

    def answers(self) -> bool:
        """The broker reads what it was sent. Returns whether it closed."""
        play = self.play
        while data := play.broker_reads() if play.broker.closed is None else b"":
            *frames, rest = re.split(rb"\0\n?", data)
            assert rest == b""
            for at, frame in enumerate(frames):
                if b"poison" in frame:
                    play.broker_goes()
                    return True
                if frame.startswith(b"SEND\n"):
                    self.taken.append(frame.rpartition(b"\n")[2])
                receipt = re.search(rb"\nreceipt:([^\n]*)\n", frame)
                if receipt is not None and self.confirms(frames[at:]):
                    play.broker_says(RECEIPT % receipt[1])
        return False

    def confirms(self, frames: list[bytes]) -> bool:
        """Whether it says so at once, or closes before."""
        return self.product != "rabbitmq" or not any(b"poison" in frame for frame in frames)

    def goes_on(self, most: int = 50) -> None:
        """Brokers come and go until one has all that it is sent, or the session is over."""
        self.answers()
        for _ in range(most):
            if over(self.play) or self.play.brokers[-1].closed is None:
                return
            found(self.play, self.version, self.product)
            self.answers()
        raise AssertionError("it goes on and on")


def _is_lost(play: Playbook, times: int, product: str) -> None:
    """Brokers are lost before they answer anything of what they are sent again, so often."""
    for _ in range(times):
        play.broker_reads()
        moves(play, b"1.2", product)


@pytest.mark.parametrize("product", ["rabbitmq", "activemq"])
def test_how_many_sends_are_unconfirmed(product: str) -> None:
    """However often they are sent again, with care or without, and whether the line was sent or not."""
    with started(product=product, confirm=True) as play:
        resender = link(play).resender
        assert resender is not None
        play.client_says(send(b"1") + send(b"2") + send(b"3"))
        for _ in range(6):
            play.broker_reads()
            assert resender.unconfirmed.sends == 3
            play.broker_goes()
            assert resender.unconfirmed.sends == 3
            found(play, b"1.2", product)
        play.broker_reads()


def test_disconnect_before_all_is_sent() -> None:
    """A broker that was not sent all does not get DISCONNECT: its RECEIPT would say that all is delivered."""
    with started(brokers=1, disconnect_timeout=2.0) as play:
        play.client_says(b"".join([send(b"x", receipt=f"r{at}") for at in range(3)]))
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        _is_lost(play, 2, "generic")
        play.time_passes(2.1)
        assert b"DISCONNECT" not in play.broker_reads()
        play.client_gets_error(b"connection to the broker was lost", receipt=b"bye")
        assert play.counters["possibly_lost"] == 3


def _number(play: Playbook) -> int:
    """The number of the last receipt that the relay asked for."""
    resender = link(play).resender
    assert resender is not None
    return resender.unconfirmed._asked


@pytest.mark.parametrize("product", CALM)
@pytest.mark.parametrize("confirm", [False, True], ids=["plain", "confirm"])
@pytest.mark.parametrize("before", [0, 1, 5, 3 * WINDOW])
def test_a_send_that_costs_the_connection(product: str, confirm: bool, before: int) -> None:
    """The client has an ERROR that names it; all else is delivered, in its order, and the session goes on."""
    with started(product=product, confirm=confirm) as play:
        picky = Picky(play, product)
        others = [send(b"%d" % at, receipt=f"r{at}") for at in range(before)]
        play.client_says(b"".join(others) + POISON + send(b"after", receipt="a") + send(b"last", receipt="l"))
        picky.goes_on()
        said = play.client_reads()
        assert said.count(b"ERROR\n") == 1
        error = said[said.index(b"ERROR\n") :]
        assert error.startswith(b"ERROR\nmessage:a message was not accepted\nreceipt-id:p\n")
        assert b"SEND /queue/a (receipt p): " + SAYS_WHY in error
        play.client_says(send(b"more", receipt="m"))
        picky.answers()
        play.client_gets(RECEIPT % b"m")
        play.both_stay()
        order = list(dict.fromkeys(picky.taken))
        assert order == [*(b"%d" % at for at in range(before)), b"after", b"last", b"more"]
        assert all(said.count(b"receipt-id:r%d\n" % at) == 1 for at in range(before))
        assert len(play.opened) <= 8
        assert play.counters["poison_refused"] == 1
        assert play.counters["possibly_lost"] == 0
        assert "a message was not accepted (SEND /queue/a (receipt p)" in play.noted(Event.ERROR)


def test_a_send_that_costs_the_connection_where_an_error_ends_sessions() -> None:
    """With `close_on_error` it is as any ERROR: what the client said behind it is delivered, then the session ends."""
    with started(confirm=True, close_on_error=True) as play:
        picky = Picky(play)
        play.client_says(POISON + send(b"after", receipt="a"))
        picky.goes_on()
        said = play.client_reads()
        assert said.startswith(RECEIPT % b"a" + b"ERROR\nmessage:a message was not accepted\nreceipt-id:p\n")
        play.client_is_closed(How.LINGER)
        assert over(play)


def test_several_sends_that_cost_the_connection() -> None:
    """Each has its ERROR, and the session goes on."""
    with started(product="rabbitmq", confirm=True) as play:
        picky = Picky(play)
        bad = [send(b"bad", priority="poison", receipt=f"p{at}") for at in range(3)]
        play.client_says(send(b"1").join(bad) + send(b"2"))
        picky.goes_on()
        said = play.client_reads()
        assert re.findall(rb"\nreceipt-id:([^\n]*)\n", said) == [b"p0", b"p1", b"p2"]
        assert [*dict.fromkeys(picky.taken)] == [b"1", b"2"]
        assert len(play.opened) <= 12
        play.both_stay()


@pytest.mark.parametrize("unconfirmed", [True, False])
def test_a_loss_that_a_frame_may_explain(unconfirmed: bool) -> None:
    """It is no trouble of the broker for other sessions: many clients of one queue that rejects are lost together."""
    with started(confirm=True) as play:
        health = play.opened[0].health
        sight = health.sight()
        play.client_said(send(b"1") if unconfirmed else b"")
        play.broker_goes()
        assert health.disproved(sight) is not unconfirmed


def test_pauses_are_short_behind_a_frame_that_explains_the_losses() -> None:
    """However many frames of a session cost connections, the next search begins at once."""
    with started(confirm=True, brokers=1) as play:
        picky = Picky(play)
        for at in range(20):
            began = play.now
            play.client_says(send(b"bad", priority="poison", receipt=f"p{at}"))
            picky.goes_on()
            assert b"receipt-id:p%d\n" % at in play.client_reads()
            assert play.now - began < 1.0


def test_a_client_that_errs_before_it_is_told() -> None:
    """The session has one ERROR: it says that not all was delivered that came before it."""
    with started(confirm=True) as play:
        picky = Picky(play)
        play.client_says(POISON + send(b"after", receipt="a") + tell(b"NONSENSE"))
        picky.goes_on()
        said = play.client_reads()
        assert said.startswith(RECEIPT % b"a" + b"ERROR\nmessage:unknown command\n")
        assert said.count(b"ERROR\n") == said.count(b"; what has no receipt may be lost") == 1


@pytest.mark.parametrize("product", CALM)
def test_what_costs_the_connection_from_a_client_that_is_gone(product: str) -> None:
    """It is dropped, noted and counted, and the rest delivered, within `disconnect_timeout` in all."""
    with started(product=product, confirm=True, disconnect_timeout=5.0) as play:
        picky = Picky(play, product)
        play.client_says(send(b"1") + POISON + send(b"2"))
        play.client_goes()
        went = play.now
        picky.goes_on()
        assert over(play)
        assert play.now - went < 5.0
        assert list(dict.fromkeys(picky.taken)) == [b"1", b"2"]
        assert play.counters["poison_refused"] == 1
        assert play.counters["possibly_lost"] == 0
        assert play.counters["errors_sent"] == 0
        assert "SEND /queue/a (receipt p)" in play.noted(Event.ERROR)
        assert play.client_reads().count(b"ERROR") == 0


@in_all_pairs
def test_a_subscription_that_costs_the_connection(client: bytes, broker: bytes) -> None:
    """Those before it are not to blame; after the ERROR no messages are taken any more."""
    with started(client, broker, product="activemq") as play:
        picky = Picky(play, "activemq", broker)
        good = tell(b"SUBSCRIBE", id="1", destination="/queue/a")
        bad = tell(b"SUBSCRIBE", id="2", destination="/queue/poison", receipt="s")
        play.client_says(good + bad + tell(b"SUBSCRIBE", id="3", destination="/queue/c"))
        picky.goes_on()
        error = play.client_reads()
        assert b"SUBSCRIBE /queue/poison (receipt s): " + SAYS_WHY in error
        assert over(play)
        assert play.counters["poison_refused"] == 1


def test_a_subscription_that_costs_the_connection_later() -> None:
    """Its ERROR names no receipt that the client has."""
    with started(product="activemq") as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/poison", receipt="s"))
        play.broker_reads()
        play.broker_says(RECEIPT % b"s")
        play.client_gets(RECEIPT % b"s")
        play.broker_goes()
        found(play, b"1.2", "activemq")
        Picky(play, "activemq").goes_on()
        play.client_gets_error(b"a frame cannot be delivered")


def test_what_the_client_sends_meanwhile_waits() -> None:
    """It is held while the line is sent with care, with the pace of a client without a broker; then it is delivered."""
    with started(product="activemq", confirm=True, resend_buffer=1000) as play:
        play.client_says(send(b"1"))
        _is_lost(play, 2, "activemq")
        play.client_says(send(b"2"))
        assert not client_waits(play)
        play.client_says(send(b"x" * 1000))
        assert client_waits(play)
        _check_answered(play)
        play.broker_says(RECEIPT % b"relay-session-receipt-%d" % _number(play))
        assert play.broker_reads().count(b"SEND\n") == 2


def _check_answered(play: Playbook) -> None:
    """The broker is well: it answers the order that has no effect, and is sent the SEND."""
    play.broker_says(RECEIPT % b"relay-session-receipt-%d" % _number(play))
    assert play.broker_reads().count(b"SEND\n") == 1


def test_a_strike_that_nobody_knows_of_yet_waits() -> None:
    """Only when the broker was seen to be well does it count: here the session asks each of them in turn."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_says(send(b"1"))
        _is_lost(play, 3, "rabbitmq")  # so it is sent alone now
        play.broker_reads()
        _check_answered(play)
        moves(play, b"1.2", "rabbitmq")
        play.broker_reads()
        _check_answered(play)  # the other one was not asked since
        moves(play, b"1.2", "rabbitmq")
        play.broker_reads()
        assert play.counters["poison_refused"] == 0
        _check_answered(play)  # one strike counts
        moves(play, b"1.2", "rabbitmq")
        play.broker_reads()
        play.broker_says(RECEIPT % b"relay-session-receipt-%d" % _number(play))
        assert play.counters["poison_refused"] == 1
        assert b"ERROR\nmessage:a message was not accepted\n" in play.client_reads()


@pytest.mark.parametrize("losses", [2, 3])
def test_an_error_without_a_receipt_is_an_answer(losses: int) -> None:
    """RabbitMQ names none: what follows with care, many frames at a time or one by one, does not wait for ever."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_says(b"".join(send(b"%d" % at) for at in range(10)))
        _is_lost(play, losses, "rabbitmq")
        if losses == 3:
            play.broker_says(RECEIPT % b"relay-session-receipt-%d" % _number(play))
        error = b"ERROR\nmessage:not found\n\n\0"
        play.client_says(send(b"after"))
        seen = play.broker_reads()
        for _ in range(10):
            play.broker_says(error)
            assert play.client_reads() == error
            seen += play.broker_reads()
        assert seen.count(b"SEND\n") == 11
        assert seen.endswith(b"\n\nafter\0")


def test_one_group_of_a_fan_out_that_cannot_stand_a_frame() -> None:
    """To the quorum that is an ERROR about its receipt: the other group decides, and this one has all that follows."""
    with fanned(quorum=1) as play:
        play.client_said(POISON + send(b"after", receipt="r"))
        play.broker_tells_client(RECEIPT % b"p" + RECEIPT % b"r", at="a")
        taken = []
        play.broker_goes(at="b")
        for _ in range(20):
            while play.at("b").closed is not None:
                play.time_passes(play.wake - play.now)
            play.broker_welcomes(at="b")
            while data := play.broker_reads(at="b"):
                frames = data.split(b"\0")[:-1]
                if any(b"poison" in frame for frame in frames):
                    play.broker_goes(at="b")
                    break
                taken += [frame for frame in frames if b"SEND\n" in frame]
                for receipt in re.findall(rb"\nreceipt:([^\n]*)\n", data):
                    play.broker_says(RECEIPT % receipt, at="b")
            else:
                break
        assert [frame.rpartition(b"\n")[2] for frame in taken] == [b"after"]
        assert play.counters["poison_refused"] == 1
        assert play.client.closed is None
        play.client_says(send(b"more"))
        assert play.broker_reads(at="b").endswith(b"\n\nmore\0")
        play.broker_reads(at="a")


def test_what_a_check_proves() -> None:
    """A SEND that asks for no RECEIPT is not counted as lost once a group has answered the check behind it."""
    with fanned(quorum=1) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
        for number in range(3):
            play.broker_reads(at="b")
            play.broker_goes(at="b")
            if number == 2:
                play.client_says(send(b"1"))
            while play.at("b").closed is not None:
                play.time_passes(play.wake - play.now)
            play.broker_welcomes(at="b")
        seen = b""
        while data := play.broker_reads(at="b"):
            seen += data
            for receipt in re.findall(rb"\nreceipt:([^\n]*)\n", data):
                play.broker_says(RECEIPT % receipt, at="b")
        assert seen.count(b"SEND\n") == 1
        play.broker_goes(at="b")
        play.broker_reads(at="a")
        assert play.counters["possibly_lost"] == 0


def test_a_group_that_answers_a_frame_with_an_error_each_time() -> None:
    """It is given up at the second ERROR, though it confirms each time what the relay asks for before the frame."""
    with fanned(quorum=1, confirm=True) as play:
        play.client_says(send(b"bad") + tell(b"BEGIN", transaction="t"))
        for at in range(4):
            asked = re.findall(rb"\nreceipt:([^\n]*)\n", play.broker_reads(at="b"))
            if at < 2:  # it is lost before it answers: from then on frames are sent one by one
                play.broker_goes(at="b")
            else:
                play.broker_says(RECEIPT % asked[0], at="b")
                assert b"\nbad\0" in play.broker_reads(at="b")
                play.broker_says(b"ERROR\nmessage:Processing error\n\n\0", at="b")
                play.broker_reads(at="b")
            if at < 3:
                while play.at("b").closed is not None:
                    play.time_passes(play.wake - play.now)
                play.broker_welcomes(at="b")
        assert "group main-2 is given up: it answered ERROR: Processing error" in play.noted(Event.LOST)
        play.broker_reads(at="a")


def test_a_group_that_cannot_stand_a_frame_and_cannot_be_sent_the_next() -> None:
    """It is given up, and the session ends in order, where the other group refused the first frame."""
    with begun(listener(fan_out(2), loss=LossPolicy.REJECT), b"1.2", "ab", b"1.0", b"1.2") as play:
        play.client_says(POISON)
        play.broker_says(b"ERROR\nmessage:no\nreceipt-id:p\n\n\0", at="b")
        for number in range(5):
            data = play.broker_reads(at="a")
            if b"poison" not in data:
                check = re.search(rb"\nreceipt:([^\n]*)\n", data)
                play.broker_says(RECEIPT % check[1] if check else b"", at="a")
                data = play.broker_reads(at="a") if play.at("a").closed is None else b""
            if b"poison" in data:
                play.broker_goes(at="a")
                play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\n\n\0" if number == 1 else b"")
                while play.at("a").closed is not None:
                    play.time_passes(play.wake - play.now)
                play.broker_welcomes(b"1.0", at="a")
        play.broker_reads(at="b")
        assert b"the quorum cannot be reached" in play.client_reads()


class Taciturn(Picky):
    """Brokers that confirm no SEND."""

    def confirms(self, frames: list[bytes]) -> bool:
        return super().confirms(frames) and not frames[0].startswith(b"SEND\n")


def test_a_broker_that_says_no_more_after_a_refusal() -> None:
    """A client whose frame was refused holds its session no longer than `disconnect_timeout`."""
    with started(confirm=True, disconnect_timeout=5.0) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/poison", receipt="p"))
        play.client_says(send(b"after", receipt="a"))
        Taciturn(play).goes_on()
        limit = play.now + 5.0
        while not over(play):
            assert play.wake <= limit
            play.time_passes(play.wake - play.now)
        play.client_gets_error(b"a frame cannot be delivered", receipt=b"p")
