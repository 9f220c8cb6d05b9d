"""A move of destinations from OLD (broker a) to NEW (broker b), phase by phase, and back."""

from typing import Any
from zlib import crc32

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.move import MOST, Mark, Move, Phase
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.relay.model.upstream import Upstream
from tests.playbook import listener
from tests.relay.frames import header, message, receipt, send, tell
from tests.relay.several import begun, lasting, plain

AT_A = tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
END = tell(b"UNSUBSCRIBE", id="1")
OVER = tell(b"UNSUBSCRIBE", id="1", receipt="relay-session-receipt-1")
IS_OVER = receipt("relay-session-receipt-1")


class Moving:
    """A session, and the move of what begins with `pattern`."""

    def __init__(
        self,
        phase: str = "off",
        client: bytes = b"1.2",
        new: Upstream | None = None,
        old: Upstream | None = None,
        pattern: str = "/queue/a",
        **settings: Any,
    ) -> None:
        self.move = Move("orders", Phase(phase))
        route = Route(Match.PREFIX, pattern, new or lasting("new", "b"), self.move)
        self.front: Listener = listener(old or lasting("old", "a"), routes=(route,), **settings)
        self.play = begun(self.front, client, "a")

    def to(self, phase: str) -> None:
        """An operator begins this phase, and the session is told."""
        self.move.enter(Phase(phase), 1.0)
        self.tell()

    def tell(self) -> None:
        """The session is told to follow."""
        self.play._perform(self.play.relay.handle(inputs.Phased(self.front), self.play.now))

    def standing(self) -> tuple[bool, str] | None:
        """Whether the session has followed, and why it stays at OLD."""
        return self.play.relay.standing(self.move)


def copy(number: int, body: bytes = b"") -> bytes:
    """What NEW gets in the phase `shadow` of a SEND that is this frame of the client, CONNECT not counted."""
    mark = Mark.of(b"relay-session", number, body).value
    assert Mark.parse(mark) == (b"relay-session", number, crc32(body))
    return send(body).replace(b"SEND\n", b"SEND\nrelay-copy:%b\n" % mark)


def test_all_phases() -> None:
    """A consumer that sends, from `off` to `done`: nothing is asked of the client."""
    moving = Moving()
    with moving.play as play:
        play.client_tells_broker(AT_A, at="a")
        play.client_tells_broker(send(b"0"), at="a")
        moving.to("shadow")
        play.client_said(b"")
        play.client_tells_broker(send(b"1"), at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(copy(3, b"1"), at="b")
        moving.to("both")
        play.broker_gets(AT_A + b"\n", at="b")
        play.client_tells_broker(send(b"2"), at="a")
        moving.to("new")
        play.client_tells_broker(send(b"3"), at="b")
        play.broker_tells_client(message(b"3", message_id="b1", ack="b1"), at="b")
        play.broker_tells_client(message(b"2", message_id="a1", ack="a1"), at="a")
        moving.to("done")
        assert moving.standing() == (False, "")  # the client owes OLD an ACK
        play.client_tells_broker(tell(b"ACK", id="a1"), at="a")
        moving.tell()
        play.broker_gets(OVER + b"\n", at="a")
        assert moving.standing() == (True, "")
        play.client_tells_broker(tell(b"ACK", id="b1"), at="b")
        play.client_tells_broker(send(b"4"), at="b")


def test_back_again() -> None:
    """From `done` to `off`: OLD gets the subscription again, and NEW loses it when nothing is owed there."""
    moving = Moving("done")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        play.broker_tells_client(message(b"1", message_id="b1", ack="b1"), at="b")
        moving.to("off")
        play.broker_gets(AT_A + b"\n", at="a")
        play.client_tells_broker(send(b"2"), at="a")
        assert moving.standing() == (False, "")
        play.client_tells_broker(tell(b"ACK", id="b1"), at="b")
        moving.tell()
        play.broker_gets(OVER + b"\n", at="b")
        assert moving.standing() == (True, "")


def test_what_is_still_on_its_way_from_old() -> None:
    """A message that OLD sent before it read UNSUBSCRIBE is not for the client, whose ACK would be an error there."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        play.broker_gets(AT_A + b"\n", at="a")
        moving.to("done")
        play.broker_gets(OVER + b"\n", at="a")
        play.broker_says(message(b"late", message_id="a1", ack="a1"), at="a")
        moving.to("new")
        play.broker_says(message(b"later", message_id="a2", ack="a2"), at="a")
        play.client_gets(b"")
        assert moving.standing() == (
            False,
            "",
        )  # OLD has not read UNSUBSCRIBE: what comes is not of the next one
        play.broker_says(IS_OVER, at="a")
        moving.tell()
        assert moving.standing() == (True, "")
        play.broker_gets(AT_A + b"\n", at="a")
        play.broker_tells_client(message(b"late", message_id="a1", ack="a2"), at="a")


def test_back_before_old_has_confirmed_the_end() -> None:
    """NEW keeps the subscription until OLD may have it again, whatever phases begin meanwhile."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        moving.to("done")
        assert play.broker_reads(at="a").endswith(OVER + b"\n")
        moving.to("off")
        play.nobody_gets_more()
        play.broker_says(IS_OVER, at="a")
        moving.tell()
        play.broker_gets(AT_A + b"\n", at="a")
        play.broker_gets(OVER + b"\n", at="b")


def test_the_client_ends_what_a_move_has_not() -> None:
    """It owes OLD an ACK. Each broker is told once."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        for at in "ab":
            play.broker_gets(AT_A + b"\n", at=at)
        play.broker_tells_client(message(message_id="a1", ack="a1"), at="a")
        moving.to("done")
        play.client_says(END)
        play.broker_gets(END, at="b")
        play.broker_gets(END + b"\n", at="a")


def test_an_id_that_comes_again() -> None:
    """A move ended the subscription at OLD, then the client did, and began another one: that one has its messages."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        moving.to("done")
        assert play.broker_reads(at="a").endswith(OVER + b"\n")
        assert play.broker_reads(at="b").startswith(AT_A)
        play.client_tells_broker(END, at="b")
        moving.to("both")
        play.client_says(AT_A)
        for at in "ab":
            play.broker_gets(AT_A + b"\n" * (at == "b"), at=at)
            play.broker_tells_client(message(message_id=at, ack=at), at=at)


@pytest.mark.parametrize("phase", ["both", "new", "done"])
def test_receipts(phase: str) -> None:
    """The upstream that gets SENDs answers SUBSCRIBE and UNSUBSCRIBE; the other one is not asked."""
    first, other = ("a", "b") if phase == "both" else ("b", "a")
    moving = Moving(phase)
    with moving.play as play:
        asking = AT_A.replace(b"\n\n", b"\nreceipt:s\n\n")
        play.client_says(asking)
        play.broker_welcomes(at="b")
        assert b"receipt:s\n" in play.broker_reads(at=first)
        if phase != "done":
            play.broker_gets(AT_A + b"\n", at=other)
        play.broker_tells_client(receipt("s"), at=first)
        play.client_says(END.replace(b"\n\n", b"\nreceipt:u\n\n"))
        assert b"receipt:u\n" in play.broker_reads(at=first)
        if phase != "done":
            play.broker_gets(END + b"\n", at=other)
        play.broker_tells_client(receipt("u"), at=first)


def test_a_client_of_1_0() -> None:
    """It names neither its subscriptions nor deliveries by subscription; each ACK reaches its message's broker."""
    moving = Moving("both", b"1.0")
    with moving.play as play:
        subscribe = tell(b"SUBSCRIBE", destination="/queue/a", ack="client")
        play.client_says(tell(b"SUBSCRIBE", destination="/queue/z", ack="client") + subscribe)
        play.broker_welcomes(b"1.0", at="b")
        play.broker_reads(at="a")
        play.broker_gets(subscribe + b"\n", at="b")
        for at in "ab":
            wire = message(b"", message_id=f"{at}1").replace(b"subscription:1\n", b"")
            play.broker_tells_client(wire, at=at)
        play.client_says(tell(b"ACK", message_id="b1"))
        play.broker_gets(tell(b"ACK", message_id="b1"), at="b")
        play.broker_gets(tell(b"ACK", message_id="a1") + b"\n", at="a")  # it is cumulative
        moving.to("off")
        play.broker_gets(
            tell(b"UNSUBSCRIBE", destination="/queue/a", receipt="relay-session-receipt-1") + b"\n", at="b"
        )


# Copies


def test_copies_have_no_influence() -> None:
    """Neither receipt nor error nor a full queue of NEW reaches the client; the move is stopped and says why."""
    moving = Moving("shadow", new=plain("new", "b"))
    with moving.play as play:
        asking = send(b"1", receipt="r")
        play.client_tells_broker(asking, at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(copy(1, b"1"), at="b")
        play.broker_says(tell(b"ERROR", message="no such queue"), at="b")
        play.broker_tells_client(receipt("r"), at="a")
        assert moving.move.stopped == "it answered ERROR: no such queue"
        assert moving.standing() == (True, "it answered ERROR: no such queue")
        play.client_tells_broker(send(b"2"), at="a")
        moving.to("off")
        moving.to("shadow")
        play.client_tells_broker(send(b"3"), at="a")  # the next phase tries again
        play.broker_welcomes(at="b")
        play.broker_gets(copy(3, b"3"), at="b")
        play.broker_goes(at="b")
        assert moving.standing() == (True, "it was lost")
        play.client_tells_broker(send(b"4"), at="a")
        play.client_says(tell(b"DISCONNECT", receipt="d"))
        assert b"receipt:d" in play.broker_reads(at="a")
        play.broker_tells_client(receipt("d"), at="a")


def test_new_is_full() -> None:
    """The client is read from all the same; the copies that NEW has no room for are counted."""
    moving = Moving("shadow", new=lasting("new", "b", resend_buffer=200, confirm=True))
    with moving.play as play:
        play.client_says(send(b"0"))
        play.broker_welcomes(at="b")
        for number in range(1, 10):
            play.client_says(send(b"%d" % number))
        assert not play.client.paused
        assert moving.move.failed == 1
        assert moving.move.stopped == "more waits for it than resend_buffer"
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.client_says(tell(b"DISCONNECT", receipt="d"))
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.broker_tells_client(receipt("d"), at="a")


def test_a_client_that_leaves_before_new_is_there() -> None:
    """It does not wait; its copies have failed."""
    moving = Moving("shadow")
    with moving.play as play:
        play.client_tells_broker(send(b"1"), at="a")
        play.client_says(tell(b"DISCONNECT", receipt="d"))
        assert b"receipt:d" in play.broker_reads(at="a")
        play.broker_tells_client(receipt("d"), at="a")
    assert moving.move.failed == 1


def test_a_copy_of_a_transaction() -> None:
    """NEW gets the transaction as a whole, when OLD does."""
    moving = Moving("shadow")
    begin, commit = tell(b"BEGIN", transaction="t"), tell(b"COMMIT", transaction="t", receipt="c")
    with moving.play as play:
        play.client_tells_broker(begin, at="a")
        play.client_tells_broker(send(b"1", transaction="t"), at="a")
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.client_tells_broker(commit, at="a")
        assert play.broker_reads(at="b").startswith(b"COMMIT\nreceipt:relay-session-receipt-")
        play.broker_tells_client(receipt("c"), at="a")


# Transactions


def test_a_transaction_stays_where_it_began() -> None:
    """Its later SENDs go there, too, although others go to NEW meanwhile."""
    moving = Moving("both")
    with moving.play as play:
        play.client_tells_broker(tell(b"BEGIN", transaction="t"), at="a")
        play.client_tells_broker(send(b"1", transaction="t"), at="a")
        play.broker_welcomes(at="b")
        moving.to("new")
        play.client_tells_broker(send(b"2", transaction="t"), at="a")
        play.client_tells_broker(send(b"3"), at="b")
        play.client_tells_broker(tell(b"COMMIT", transaction="t", receipt="c"), at="a")
        play.broker_tells_client(receipt("c"), at="a")
        play.client_tells_broker(tell(b"BEGIN", transaction="u"), at="a")
        play.client_says(send(b"4", transaction="u"))
        play.broker_gets(tell(b"ABORT", transaction="u") + b"\n", at="a")
        play.broker_gets(tell(b"BEGIN", transaction="u") + b"\n" + send(b"4", transaction="u"), at="b")


def test_a_transaction_that_sends_before_it_acknowledges() -> None:
    """It goes to the broker of the oldest message that awaits its ACK, where the ACK goes, too."""
    moving = Moving("new")
    with moving.play as play:
        play.client_said(AT_A)
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.broker_tells_client(message(b"1", message_id="m", ack="k"), at="a")
        play.broker_tells_client(message(b"2", message_id="n", ack="l"), at="b")
        play.client_tells_broker(tell(b"BEGIN", transaction="t"), at="a")
        play.client_tells_broker(send(b"3", transaction="t"), at="a")
        play.client_tells_broker(tell(b"ACK", id="k", transaction="t"), at="a")
        play.client_tells_broker(tell(b"COMMIT", transaction="t", receipt="c"), at="a")
        play.client_tells_broker(tell(b"BEGIN", transaction="u"), at="a")
        play.client_says(send(b"4", transaction="u") + tell(b"ACK", id="l", transaction="u"))
        play.broker_gets(tell(b"ABORT", transaction="u") + b"\n", at="a")
        sent = tell(b"BEGIN", transaction="u") + b"\n" + send(b"4", transaction="u")
        play.broker_gets(sent + tell(b"ACK", id="l", transaction="u"), at="b")


def test_a_transaction_for_two_brokers() -> None:
    """Nobody would read there what a phase leads elsewhere: the client gets an ERROR, as with routes."""
    for phase, first, second in (("new", b"/queue/a", b"/queue/x"), ("done", b"/queue/x", b"/queue/a")):
        moving = Moving(phase)
        with moving.play as play:
            play.client_says(tell(b"BEGIN", transaction="t") + send(b"1", first, transaction="t"))
            play.broker_reads(at="a")
            play.client_says(send(b"2", second, transaction="t"))
            assert b"a transaction cannot span upstreams" in play.client_reads()
        assert not moving.move.stopped


# Sessions that stay at OLD


@pytest.mark.parametrize("phase", ["shadow", "both", "new", "done"])
def test_new_refuses(phase: str) -> None:
    """The session stays at OLD, with what NEW was to get; the client gets its receipts and no ERROR."""
    moving = Moving(phase)
    with moving.play as play:
        play.client_says(AT_A.replace(b"\n\n", b"\nreceipt:s\n\n") + send(b"1", receipt="r"))
        play.broker_is_asked(at="b")
        play.broker_says(tell(b"ERROR", message="Access refused"), at="b")
        assert play.broker_reads(at="a").replace(b"receipt:s\n", b"").replace(b"\0\n", b"\0") == AT_A + send(
            b"1", receipt="r"
        )
        if phase in ("shadow", "both"):
            play.broker_tells_client(receipt("s"), at="a")
        else:
            play.client_gets(receipt("s"))
        play.broker_tells_client(receipt("r"), at="a")
        assert moving.standing() == (True, "it answered CONNECT with ERROR: Access refused")
        assert not moving.move.stopped
        play.client_tells_broker(send(b"2"), at="a")
        play.client_tells_broker(END, at="a")


def test_a_plain_new_is_lost() -> None:
    """In `both` the session goes on with OLD. In `new` it ends, as with each plain address."""
    for phase in ("both", "new"):
        moving = Moving(phase, new=plain("new", "b"))
        with moving.play as play:
            play.client_said(AT_A)
            play.broker_welcomes(at="b")
            play.broker_reads(at="b")
            play.broker_goes(at="b")
            if phase == "both":
                assert moving.standing() == (True, "it was lost")
                play.client_tells_broker(send(b"1"), at="a")
            else:
                play.client_gets_error(b"connection to the broker was lost")


def test_new_is_away_for_a_while() -> None:
    """Where NEW may come back it gets the subscription then; `new` begins for the session when it has accepted."""
    moving = Moving("both")
    with moving.play as play:
        play.client_tells_broker(AT_A, at="a")
        moving.to("new")
        assert moving.standing() == (False, "")
        play.client_tells_broker(send(b"1"), at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        moving.tell()
        assert moving.standing() == (True, "")
        play.client_tells_broker(send(b"2"), at="b")


def test_an_error_of_new_in_the_phase_new() -> None:
    """It is the client's, as from every broker of its SENDs, and the move is stopped."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(send(b"1"))
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.broker_tells_client(tell(b"ERROR", message="no"), at="b")
        assert moving.move.stopped == "it answered ERROR: no"


@pytest.mark.parametrize(
    ("mode", "version", "ack"),
    [
        ("auto", b"1.2", b""),
        ("client-individual", b"1.2", b"ACK\nid:k\n\n\0\n"),
        ("client", b"1.1", b"ACK\nsubscription:1\nmessage-id:m\n\n\0\n"),
        ("client", b"1.0", b"ACK\nmessage-id:m\n\n\0\n"),
    ],
)
def test_copies_that_wait_at_new(mode: str, version: bytes, ack: bytes) -> None:
    """They are no messages of the client's, which has the originals of OLD: NEW gets their ACKs."""
    moving = Moving("both", version)
    with moving.play as play:
        play.client_said(AT_A.replace(b"client-individual", mode.encode()))
        play.broker_welcomes(version, at="b")
        play.broker_reads(at="b")
        headers = {"message_id": "m", "relay_copy": "relay-other-shadow-7-00000000"}
        play.broker_says(message(b"1", **headers, **({"ack": "k"} if version == b"1.2" else {})), at="b")
        play.broker_gets(ack, at="b")
        play.broker_tells_client(message(b"1", message_id="m", relay_copy="relay-other-7", ack="k"), at="b")


def test_a_copy_after_the_end_of_its_subscription() -> None:
    """It was under way when the client unsubscribed: brokers answer its ACK with an ERROR, so NEW gets none."""
    moving = Moving("both")
    with moving.play as play:
        play.client_said(AT_A)
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.client_said(END)
        play.broker_reads(at="b")
        play.broker_says(
            message(b"1", message_id="m", ack="k", relay_copy="relay-x-shadow-1-00000000"), at="b"
        )
        play.nobody_gets_more()


def test_a_copy_after_what_is_owed() -> None:
    """Its ACK would cover what the client has not acknowledged, so the client's own ACK settles it, too."""
    moving = Moving("both")
    with moving.play as play:
        play.client_said(AT_A.replace(b"client-individual", b"client"))
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.broker_tells_client(message(b"1", message_id="m", ack="k"), at="b")
        play.broker_says(
            message(b"2", message_id="n", ack="l", relay_copy="relay-x-shadow-1-00000000"), at="b"
        )
        play.nobody_gets_more()
        play.client_tells_broker(tell(b"ACK", id="k"), tell(b"ACK", id="l"), at="b")


def test_copies_while_new_is_away() -> None:
    """They are for NEW alone: nobody else gets them when the phase changes."""
    for back in ("both", "off"):
        moving = Moving("shadow")
        with moving.play as play:
            play.client_tells_broker(send(b"1"), at="a")
            moving.to(back)
            assert moving.move.failed == (back == "both")
            play.client_tells_broker(send(b"2"), at="a")


# Going back


def test_going_back_while_new_is_away() -> None:
    """OLD gets what NEW did not confirm, with a mark if NEW may have it; the client gets its receipts."""
    moving = Moving("new", new=lasting("new", "b", confirm=True))
    with moving.play as play:
        play.client_says(send(b"1", receipt="r"))
        play.broker_welcomes(at="b")
        play.broker_gets(send(b"1", receipt="r"), at="b")
        play.broker_goes(at="b")
        play.client_says(send(b"2", receipt="s"))
        moving.to("both")
        again = send(b"1", receipt="r").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        play.broker_gets(again + send(b"2", receipt="s"), at="a")
        play.broker_tells_client(receipt("r", "s"), at="a")
        assert moving.standing() == (True, "it was not there")


def test_off_again() -> None:
    """NEW is left, and is free; the next move connects again."""
    moving = Moving("shadow")
    with moving.play as play:
        play.client_tells_broker(send(b"1"), at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(copy(1, b"1"), at="b")
        moving.to("off")
        play.broker_is_closed(at="b")
        assert [str(link.broker) for link in play.relay.links] == ["a"]
        moving.to("shadow")
        play.client_tells_broker(send(b"2"), at="a")
        play.broker_welcomes(at="b")
        play.broker_gets(copy(2, b"2"), at="b")


def test_an_ack_for_a_new_that_was_left() -> None:
    """NEW was lost, and left on the way back: the connection of the next move does not get its ACKs."""
    moving = Moving("new")
    with moving.play as play:
        play.client_said(AT_A)
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.broker_tells_client(message(message_id="b1", ack="b1"), at="b")
        moving.to("off")
        play.broker_goes(at="b")
        moving.tell()
        assert [str(link.broker) for link in play.relay.links] == ["a"]
        moving.to("new")
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        play.client_tells_broker(tell(b"ACK", id="b1"), b"", at="b")
        play.nobody_gets_more()
        assert play.counters["acks_stale"] == 1


def test_what_a_new_rabbitmq_says_when_messages_and_unsubscribe_cross() -> None:
    """Nothing went wrong: the client is not told, and the move goes on."""
    for phase in ("both", "new"):
        moving = Moving(phase, new=lasting("new", "b", profile=RABBITMQ))
        with moving.play as play:
            play.client_said(AT_A)
            play.broker_welcomes(at="b")
            play.broker_reads(at="b")
            play.client_said(END)
            play.broker_reads(at="b")
            body = b"There is no current subscription with tag 'T_1'.\n"
            play.broker_says(b"ERROR\nmessage:Subscription not found\n\n%b\0" % body, at="b")
            play.nobody_gets_more()
            assert moving.standing() == (True, "")
            assert not moving.move.stopped


def test_what_rabbitmq_says_when_messages_and_the_end_cross() -> None:
    """The client ended nothing, so it is not told."""
    moving = Moving("new", old=lasting("old", "a", profile=RABBITMQ))
    with moving.play as play:
        play.client_said(AT_A)
        play.broker_welcomes(at="b")
        play.broker_reads(at="b")
        moving.to("done")
        play.broker_gets(OVER + b"\n", at="a")
        body = b"There is no current subscription with tag 'T_1'.\n"
        play.broker_says(b"ERROR\nmessage:Subscription not found\n\n%b\0" % body, at="a")
        play.client_tells_broker(send(b"1"), at="b")


# Sessions that began when all moves were off


def test_a_session_with_one_link() -> None:
    """It has the quick flow until a phase begins. What is owed then goes on: receipts, ACKs, half a frame."""
    moving = Moving(old=lasting("old", "a", confirm=True))
    with moving.play as play:
        assert play.relay.coupled
        play.client_said(AT_A + send(b"1", receipt="r") + send(b"2")[:20])
        play.broker_tells_client(message(b"1", message_id="a1", ack="a1"), at="a")
        moving.to("both")
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        play.client_says(send(b"2")[20:])
        assert play.broker_reads(at="a").endswith(b"\n\n2\0")
        play.broker_tells_client(receipt("r"), at="a")
        play.broker_says(receipt("relay-session-receipt-1"), at="a")
        play.client_tells_broker(tell(b"ACK", id="a1"), at="a")
        assert moving.standing() == (True, "")


def test_a_transaction_of_a_session_with_one_link() -> None:
    """It ends first, and nobody has to tell the session then: the next transaction may begin at once."""
    moving = Moving()
    with moving.play as play:
        play.client_tells_broker(tell(b"BEGIN", transaction="t"), at="a")
        moving.to("new")
        assert moving.standing() is None
        play.client_tells_broker(send(b"1", transaction="t"), at="a")
        play.client_tells_broker(tell(b"ABORT", transaction="t"), at="a")
        assert moving.standing() == (True, "")
        play.client_says(send(b"2"))
        play.broker_welcomes(at="b")
        play.broker_gets(send(b"2"), at="b")


# The next move


def next_move(moving: Moving, old: str, new: str, *kept: Route) -> Listener:
    """The listener after a reload: its own upstream is OLD, and another move leads from there to NEW."""
    upstreams = {each.upstream.name: each.upstream for each in moving.front.routes}
    upstreams["old"] = moving.front.upstream
    moving.move = Move("further")
    route = Route(Match.PREFIX, "/queue/", upstreams.get(new) or lasting(new, "c"), moving.move)
    return listener(upstreams[old], routes=(*kept, route))


def test_from_new_to_another() -> None:
    """NEW becomes the listener's upstream: the session leaves OLD, and follows the next move."""
    moving = Moving("done")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        moving.front = next_move(moving, "new", "third")
        moving.tell()
        assert play.brokers[0].closed
        assert moving.standing() == (True, "")
        moving.to("both")
        play.broker_welcomes(at="c")
        play.broker_gets(AT_A + b"\n", at="c")
        play.client_tells_broker(send(b"1"), at="b")
        moving.to("new")
        play.client_tells_broker(send(b"2"), at="c")
        play.broker_tells_client(message(b"1", message_id="b1", ack="b1"), at="b")
        play.client_tells_broker(tell(b"ACK", id="b1"), at="b")
        moving.to("done")
        play.broker_gets(OVER + b"\n", at="b")


def test_after_the_last_move() -> None:
    """NEW becomes the listener's upstream, without a move: OLD is left; a later move may lead back there."""
    moving = Moving("done")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        further = next_move(moving, "new", "old")
        moving.front = listener(further.upstream)
        assert play.relay.behind(moving.front)
        moving.tell()
        assert play.brokers[0].closed
        assert not play.relay.behind(moving.front)
        moving.front = further
        assert play.relay.behind(moving.front)
        moving.to("both")
        play.broker_welcomes(at="a")
        play.broker_gets(AT_A + b"\n", at="a")
        assert moving.standing() == (True, "")


def test_not_while_something_is_at_old() -> None:
    """A subscription that no move took to NEW, a SEND without its receipt, an open transaction: OLD is not left."""
    moving = Moving("done", old=lasting("old", "a", confirm=True))
    elsewhere = AT_A.replace(b"/queue/a", b"/queue/z")
    with moving.play as play:
        play.client_tells_broker(elsewhere, at="a")
        play.client_says(send(b"1"))
        play.broker_welcomes(at="b")
        moving.front = next_move(moving, "new", "third")
        moving.tell()
        assert moving.standing() is None
        play.client_tells_broker(END + tell(b"BEGIN", transaction="t"), at="a")
        moving.tell()
        assert moving.standing() is None
        play.client_says(send(b"2", b"/queue/z") + tell(b"ABORT", transaction="t"))
        moving.tell()
        assert moving.standing() is None
        play.broker_says(receipt(header(play.broker_reads(at="a"), b"receipt").decode()), at="a")
        moving.tell()
        assert play.brokers[0].closed
        assert moving.standing() == (True, "")
        play.broker_gets(send(b"1"), at="b")


def test_a_move_that_is_removed_when_it_is_done() -> None:
    """NEW has not become the listener's upstream: the session stays at NEW, where others may have subscriptions."""
    moving = Moving("done")
    with moving.play as play:
        play.client_says(send(b"1"))
        play.broker_welcomes(at="b")
        play.broker_gets(send(b"1"), at="b")
        moving.front = listener(moving.front.upstream)
        moving.tell()
        play.client_tells_broker(send(b"2"), at="b")


def test_another_move_beside() -> None:
    """A move that is configured while another one is under way: the session follows both."""
    moving = Moving("new")
    with moving.play as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_gets(AT_A + b"\n", at="b")
        play.broker_gets(AT_A + b"\n", at="a")
        first = moving.move
        moving.front = next_move(moving, "old", "new", *moving.front.routes)
        moving.to("new")
        play.client_tells_broker(send(b"1", b"/queue/z"), at="b")
        play.client_tells_broker(send(b"2"), at="b")
        assert play.relay.standing(first) == moving.standing() == (True, "")


# Temporary queues


def asks(reply_to: str, at: str) -> bytes:
    """A request that wants its reply there."""
    return message(b"", message_id=f"{at}1", ack=f"{at}1", reply_to=reply_to)


@pytest.mark.parametrize("phase", ["shadow", "both", "new", "done"])
def test_a_reply_to_a_queue_of_the_old_broker(phase: str) -> None:
    """It goes to OLD in each phase, without a copy: NEW would answer ERROR, and the move would stop."""
    moving = Moving(phase)
    place = b"/remote-temp-queue/ID:1:2"
    moving.front = listener(moving.front.upstream, routes=(everything(moving),))
    with begun(moving.front, b"1.2", "a") as play:
        play.client_says(send(b"0"))
        play.broker_welcomes(at="b")
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        play.client_tells_broker(send(b"1", place), at="a")


@pytest.mark.parametrize("at", "ab")
@pytest.mark.parametrize("phase", ["both", "new"])
def test_a_reply_goes_where_the_request_came_from(phase: str, at: str) -> None:
    """The queue that the relay made for the asker is there, also if the asker stays at OLD; NEW can be left behind."""
    moving = Moving(phase)
    moving.front = listener(moving.front.upstream, routes=(everything(moving),))
    with begun(moving.front, b"1.2", "a") as play:
        play.client_says(AT_A)
        play.broker_welcomes(at="b")
        play.broker_reads(at="a")
        play.broker_reads(at="b")
        reply_to = "/queue/relay-temp.s1.me"
        play.broker_tells_client(asks(reply_to, at), at=at)
        play.client_tells_broker(send(b"1", reply_to.encode()), at=at)
        moving.play = play
        moving.to("both" if phase == "new" else "new")
        play.client_tells_broker(send(b"2", reply_to.encode()), at=at)
        other = "b" if at == "a" else "a"
        play.broker_tells_client(asks(reply_to, other), at=other)
        play.client_tells_broker(send(b"3", reply_to.encode()), at=other)


def everything(moving: Moving) -> Route:
    """The route of this move, for all destinations."""
    [route] = moving.front.routes
    return Route(Match.PREFIX, "/", route.upstream, moving.move)


ACTIVEMQS = {"activemq.subscriptionName": "t"}


def durable(id: str, **more: str) -> bytes:
    """A SUBSCRIBE of a durable subscription."""
    return tell(b"SUBSCRIBE", id=id, destination="/topic/a", **more)


def test_durable_subscribers() -> None:
    """They are known from `shadow` on; in each phase they are there when both brokers have their subscription."""
    moving = Moving(pattern="/topic/")
    known, named = moving.move, durable("1", durable_subscription_name="s")
    with moving.play as play:
        play.client_tells_broker(named, at="a")
        play.client_tells_broker(durable("9"), at="a")
        assert known.durable == {}
        moving.to("shadow")
        assert known.durable == {": s": False}
        moving.to("both")
        play.broker_welcomes(at="b")
        play.broker_gets(named + b"\n" + durable("9") + b"\n", at="b")
        assert (known.durable, known.away) == ({": s": True}, [])
        play.client_says(durable("2", persistent="true") + durable("3", **ACTIVEMQS))
        assert known.durable == {": s": True, ": 2 on /topic/a": True, ": t": True}
        play.client_says(tell(b"UNSUBSCRIBE", id="3"))
        play.client_says(tell(b"UNSUBSCRIBE", id="2", durable="true"))
        play.client_says(tell(b"UNSUBSCRIBE", **ACTIVEMQS))
        assert known.durable == {": s": True}
        moving.to("new")
        assert known.durable == {": s": True}  # it has followed
        known.enter(Phase.BOTH, 2.0)
        assert known.away == [": s"]
        moving.to("off")
        assert known.durable == {}
        play.broker_reads(at="a")
        play.broker_reads(at="b")


def test_a_durable_subscriber_that_new_does_not_have() -> None:
    """It is not there: its session has no NEW yet, or NEW refused it."""
    moving = Moving("both", pattern="/topic/")
    with moving.play as play:
        play.client_tells_broker(durable("1", durable_subscriber_name="s"), at="a")
        assert moving.move.away == [": s"]
        play.broker_refuses(at="b")
        moving.tell()
        assert moving.move.away == [": s"]


def test_too_many_durable_subscribers() -> None:
    """Those that come later are not known."""
    move = Move("orders", Phase.BOTH)
    for each in range(MOST + 1):
        move.met(f"{each}", there=False)
    assert len(move.durable) == MOST
