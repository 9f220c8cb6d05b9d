"""One session after the other, as scripts."""

from typing import Any

import pytest

from tests.pipeline.script import MS, Script


def test_headers_that_are_kept() -> None:
    """They are the SEND's, however often it is delivered."""
    script = Script()
    script.subscribes()
    script.sends("t", kept='{"kind":"new"}')
    for _ in range(2):
        script.gets("t")
    script.gets("u")
    assert [row["headers"] for row in script.rows()] == ['{"kind":"new"}', None]


def test_a_copy_that_a_move_made_is_no_delivery() -> None:
    """What the phase `shadow` gave the new broker is kept from the client; a fan-out's copy is one."""
    script = Script()
    script.subscribes()
    script.sends("t")
    script.gets("m1", trace="t", copy="s1-shadow-1-00000000")
    script.gets("m2", trace="t", copy="s1-1")
    script.says("ACK", ack="m2")
    [delivery] = script.row()["deliveries"]
    assert "m2" in delivery


@pytest.mark.parametrize("before", [False, True])
def test_a_commit_that_the_relay_refuses(before: bool) -> None:
    """Its SENDs were not sent, whether the journal has the ERROR before or after the COMMIT of the same chunk."""
    script = Script()
    script.says("BEGIN", transaction="x")
    script.sends("t", transaction="x")
    if not before:
        script.says("COMMIT", transaction="x")
    script.happens("error", side="client", message="the transaction cannot be committed")
    if before:
        script.ns -= MS
        script.says("COMMIT", transaction="x")
    assert script.row()["outcome"] == "aborted"


def test_the_nth_receipt_is_for_the_nth_send() -> None:
    """Ids may come again; other frames ask for receipts, too; a refusal answers; the relay answers in its place."""
    script = Script()
    script.sends("t1", receipt="r")
    script.says("BEGIN", transaction="x", receipt="r")
    for trace in ("t2", "t3", "t4"):
        script.sends(trace, receipt="r")
    for answer in ("RECEIPT", "RECEIPT", "ERROR", "RECEIPT"):
        script.hears(answer, receipt="r")
    script.happens("answered", receipt="r")
    assert [row["receipt_us"] for row in script.rows()] == [5000, None, 5000, 5000]


def test_of_several_brokers_the_first_receipt_counts() -> None:
    """With fan-out each broker answers each SEND."""
    script = Script()
    script.finds("b")
    script.sends("t1", receipt="r")
    script.sends("t2", receipt="r")
    for broker in ("b", "b", "a", "a"):
        script.hears("RECEIPT", at=broker, receipt="r")
    assert [row["receipt_us"] for row in script.rows()] == [2000, 2000]


def test_a_client_of_1_2_that_speaks_as_on_1_1() -> None:
    """Some do: without an `id`, message-id and subscription count."""
    script = Script()
    script.subscribes()
    script.gets("t1", ack="other")
    script.says("ACK", message_id="t1", subscription="1")
    assert script.outcomes() == ["acked"]


@pytest.mark.parametrize("name", [None, "Q_/queue/a"])
def test_brokers_of_1_0_name_no_subscription_or_one_of_their_own(name: str | None) -> None:
    """The destination tells which one is meant."""
    script = Script("1.0", "1.0")
    script.subscribes("client", id=None)
    script.subscribes("auto", id=None, to="/queue/b")
    script.gets("t1", subscription=name)
    assert script.row()["deliveries"][0][7] == "client"
    script.says("ACK", message_id="t1")
    assert script.outcomes() == ["acked"]


def _outages(script: Script) -> list[dict[str, Any]]:
    rows = [*script.outages, *script.conversation.outages()]
    script.outages = []
    return [row._asdict() for row in rows]


def test_a_move_when_the_time_is_over() -> None:
    """Then the journal tells of it only when the next broker is there."""
    script = Script()
    script.subscribes()
    script.gets("t1")
    script.recovers("a", "b")
    assert [(each["planned"], each["broker"]) for each in _outages(script)] == [(True, "a")]
    assert script.outcomes() == ["returned"]


@pytest.mark.parametrize("end", ["disconnected", "given up"])
def test_an_outage_without_a_recovery(end: str) -> None:
    """The session ends, or its group is given up."""
    script = Script()
    if end == "given up":
        script.happens("lost", broker="a", upstream="main", group="main", given_up="1")
    else:
        script.loses("a")
        script.happens(end, end="broker")
    assert [each["given_up"] for each in _outages(script)] == [True]


def test_notes_about_nobody_s_broker() -> None:
    """A client that fell silent, or a group that misses messages, is no outage."""
    script = Script()
    script.happens("lost", side="client", beats="1")
    assert _outages(script) == []


def test_a_message_that_nobody_asked_for() -> None:
    """Replies to temporary queues come without a SUBSCRIBE; they are settled, in no mode."""
    script = Script()
    script.gets("t1", subscription="/temp-queue/x", destination="/reply-queue/1", ack=None)
    assert script.outcomes() == ["acked"]
    assert script.row()["deliveries"][0][7] is None


def test_a_session_of_which_not_all_was_seen() -> None:
    """What may have a SUBSCRIBE that was not seen has no mode, and waits if its MESSAGE can be answered."""
    script = Script(begun=False)
    script.brokers["a"] = "1.2"
    script.gets("t1")
    script.gets("t2", ack=None)
    script.says("ACK", ack="t1")
    assert script.outcomes() == ["acked", "delivered"]
    assert [row["deliveries"][0][7] for row in script.rows()] == [None, None]
    script = Script()
    script._numbers["a"] += 3
    script.gets("t1")
    assert script.outcomes() == ["delivered"]


def test_a_clock_that_is_set_back() -> None:
    """Nothing ends before it began."""
    script = Script()
    script.subscribes()
    script.sends("t")
    script.passes(-60)
    script.gets("t")
    script.says("ACK", ack="t")
    row = script.row()
    assert (row["delivery_us"], row["ack_us"]) == (0, 0)


def test_what_is_not_awaited_any_more_is_forgotten() -> None:
    """A RECEIPT after `give_up` is nobody's; losses and what they took are kept as long."""
    script = Script()
    script.subscribes()
    script.sends("t", receipt="r")
    script.gets("t1")
    script.loses("a")
    script.recovers("a", "b")
    _outages(script)
    script.passes(4000)
    script.breaks()
    script.hears("RECEIPT", at="b", receipt="r")
    script.says("ACK", ack="t1")
    assert _outages(script) == []
    assert [row["receipt_us"] for row in script.rows()] == [None, None]


def test_what_was_copied_goes_on_in_pieces() -> None:
    """Within a batch, too: rows that went out are not told again."""
    script = Script()
    script.subscribes()
    script.sends("t", receipt="r")
    script.gets("t")
    script.told = [[*each] for each in script.conversation.out]
    script.conversation.flush()
    assert script.conversation.out == []
    script.hears("RECEIPT", receipt="r")
    script.says("ACK", ack="t")
    assert len(script.conversation.out) == 2
    row = script.row()
    assert (row["outcome"], row["receipt_us"]) == ("acked", 2000)


@pytest.mark.parametrize(
    ("end", "outcome"), [("COMMIT", "acked"), ("ABORT", "delivered"), ("lost", "returned")]
)
def test_an_answer_in_a_transaction(end: str, outcome: str) -> None:
    """It counts with COMMIT, in a later batch, too; with ABORT the delivery waits again; a lost broker has it back."""
    script = Script()
    script.subscribes()
    script.gets("m")
    script.says("BEGIN", transaction="x")
    script.says("ACK", ack="m", transaction="x")
    script.breaks()
    if end == "lost":
        script.loses("a")
    else:
        script.says(end, transaction="x")
    assert script.outcomes() == [outcome]
