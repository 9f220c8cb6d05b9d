"""One session after the other, as scripts."""

from typing import Any

import pytest

from tests.pipeline.script import MS, Script

VERSIONS = ("1.0", "1.1", "1.2")


def _answers(script: Script, name: str, *, command: str = "ACK", **headers: Any) -> None:
    """An ACK as a client of its version says it of a MESSAGE that keeps its broker's name."""
    named = {
        "1.2": {"ack": name},
        "1.1": {"message_id": name, "subscription": "1"},
        "1.0": {"message_id": name},
    }
    script.says(command, **{**named[script.version], **headers})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_from_send_to_ack(version: str) -> None:
    """SEND, RECEIPT, MESSAGE and ACK are one row, with all three durations."""
    script = Script(version, version)
    script.subscribes()
    script.sends("t", receipt="r")
    script.hears("RECEIPT", receipt="r")
    script.gets("t")
    _answers(script, "t")
    row = script.row()
    assert (row["outcome"], row["matched"], row["key"]) == ("acked", "trace", "t")
    assert (row["receipt_us"], row["delivery_us"], row["ack_us"]) == (1000, 2000, 1000)
    assert row["producer"] == "client of s1"
    assert row["deliveries"][0][3] == "1"


def test_headers_that_are_kept() -> None:
    """They are the SEND's, however often it is delivered."""
    script = Script()
    script.subscribes()
    script.sends("t", kept='{"kind":"new"}')
    for _ in range(2):
        script.gets("t")
    script.gets("u")
    assert [row["headers"] for row in script.rows()] == ['{"kind":"new"}', None]


@pytest.mark.parametrize("before", [False, True])
def test_a_commit_that_the_relay_refuses(before: bool) -> None:
    """Its SENDs were not sent, whether the journal has the ERROR before or after the COMMIT of the same chunk."""
    script = Script()
    script.says("BEGIN", transaction="x")
    script.sends("t", transaction="x")

    def refuses() -> None:
        script.happens("error", side="client", message="the transaction cannot be committed")

    if before:
        refuses()
    script.ns -= MS * before
    script.says("COMMIT", transaction="x")
    if not before:
        refuses()
    assert script.row()["outcome"] == "aborted"


def test_the_nth_receipt_is_for_the_nth_send() -> None:
    """Ids may come again; other frames ask for receipts, too; a refusal answers; the relay answers in its place."""
    script = Script()
    script.sends("t1", receipt="r")
    script.says("BEGIN", transaction="x", receipt="r")
    script.sends("t2", receipt="r")
    script.sends("t3", receipt="r")
    script.sends("t4", receipt="r")
    script.hears("RECEIPT", receipt="r")
    script.hears("RECEIPT", receipt="r")
    script.hears("ERROR", receipt="r")
    script.hears("RECEIPT", receipt="r")
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


def test_a_lost_broker() -> None:
    """Its deliveries go back, the same names may come again from the next one, and late answers are stale. It
    is told once, not again in the next batch.
    """
    script = Script()
    script.subscribes()
    script.gets("t1")
    script.gets("t2")
    script.loses("a")
    lost = script.ns
    assert script.outcomes() == ["returned", "returned"]
    assert [each["recovered_ns"] for each in _outages(script)] == [None]
    script.recovers("a", "b", resent=3)
    recovered = script.ns
    script.gets("t1", at="b")
    script.says("ACK", ack="t1")  # the old one: the client was given another name for the new one
    assert script.outcomes() == ["returned", "returned", "delivered"]
    script.says("ACK", ack="relay-ack-3")
    assert script.outcomes() == ["returned", "returned", "acked"]
    (outage,) = _outages(script)
    assert (outage["broker"], outage["moved_to"], outage["planned"]) == ("a", "b", False)
    assert (outage["lost_ns"], outage["recovered_ns"]) == (lost, recovered)
    assert (outage["resent"], outage["stale_acks"], outage["given_up"]) == (3, 1, False)
    script.breaks()
    assert _outages(script) == []


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


def test_a_session_whose_beginning_was_not_seen() -> None:
    """What may have a SUBSCRIBE that was not seen has no mode, and waits if its MESSAGE can be answered."""
    script = Script(begun=False)
    script.brokers["a"] = "1.2"
    script.gets("t1")
    script.gets("t2", ack=None)
    script.says("ACK", ack="t1")
    assert script.outcomes() == ["acked", "delivered"]
    assert [row["deliveries"][0][7] for row in script.rows()] == [None, None]


def test_a_session_with_a_gap() -> None:
    """After that, it is not known what was not said."""
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
