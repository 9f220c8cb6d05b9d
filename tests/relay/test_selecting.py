"""A broker without selectors: the relay applies them, and settles what the client does not get."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.relay.model import mapping
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.profile import ACTIVEMQ, RABBITMQ
from stomprelay.relay.model.selector import PARSED, First, selector
from stomprelay.session.recent import COMPILED
from tests.playbook import Cut, Playbook, in_all_cuts, in_all_pairs, joined
from tests.relay.failing import found, started
from tests.relay.fanout.test_move import Moving
from tests.relay.frames import ABORT, BEGIN, COMMIT, receipt, settle, tell
from tests.relay.several import lasting

MAP = MapSettings("activemq", filter=("/topic/*", "/queue/dropping"))


def selecting(client: bytes = b"1.2", broker: bytes = b"1.2", cut: Cut = Cut.WHOLE, **more: Any) -> Playbook:
    """A client of ActiveMQ at RabbitMQ."""
    settings = replace(MAP, **more)
    return joined(client, broker, product="rabbitmq", cut=cut, over=lambda each: replace(each, map=settings))


def subscribe(id: str, ack: str = "auto", place: str = "/topic/t", selector: str | None = "n > 5") -> bytes:
    """A SUBSCRIBE, by default with a selector."""
    more = {} if selector is None else {"selector": selector}
    return tell(b"SUBSCRIBE", id=id, destination=place, ack=ack, **more)


def told(number: int, name: str, version: bytes = b"1.2", id: str = "1", place: str = "/topic/t") -> bytes:
    """A broker's MESSAGE with this number, of a subscription with ACKs."""
    ack = {"ack": f"a{name}"} if version == b"1.2" else {}
    return tell(b"MESSAGE", subscription=id, destination=place, message_id=f"m{name}", n=str(number), **ack)


def settled(name: str, version: bytes = b"1.2", command: bytes = b"ACK", id: str = "1") -> dict[str, str]:
    """What a broker is told about a MESSAGE."""
    if version == b"1.2":
        return {"id": f"a{name}"}
    return {"subscription": id, "message-id": f"m{name}"} if version == b"1.1" else {"message-id": f"m{name}"}


def acks(wire: bytes) -> list[dict[str, str]]:
    """The headers of the frames that a broker was sent, all of them ACKs."""
    frames = [each.strip(b"\n").split(b"\n") for each in wire.split(b"\0") if each.strip()]
    assert all(lines[0] == b"ACK" for lines in frames), wire
    return [dict(line.decode().split(":", 1) for line in lines[1:] if line) for lines in frames]


def gets(play: Playbook, *names: str) -> list[bytes]:
    """The client gets these MESSAGEs and no others; they are returned."""
    came = [each + b"\0" for each in play.client_reads().split(b"\0") if each.strip()]
    assert [each.partition(b"message-id:m")[2].partition(b"\n")[0].decode() for each in came] == [*names]
    return came


@in_all_pairs
def test_without_acks(client: bytes, broker: bytes) -> None:
    """The broker is told no selector; the client gets what it wants, and all of a subscription without a selector."""
    with selecting(client, broker) as play:
        play.client_says(subscribe("1") + subscribe("2", place="/topic/u", selector=None))
        assert b"selector" not in play.broker_reads()
        play.broker_says(told(5, "1") + told(6, "2") + told(5, "3", id="2", place="/topic/u") + told(7, "4"))
        gets(play, "2", "3", "4")
        play.nobody_gets_more()
        assert play.counters["messages_filtered"] == 1
        assert not play.counters["selector_ignored"]


@in_all_pairs
def test_individual_acks(client: bytes, broker: bytes) -> None:
    """What the client does not get is acknowledged at once."""
    with selecting(client, broker) as play:
        play.client_says(subscribe("1", "client-individual"))
        play.broker_reads()
        play.broker_says(told(6, "1", broker) + told(5, "2", broker) + told(7, "3", broker))
        first, third = gets(play, "1", "3")
        assert acks(play.broker_reads()) == [settled("2", broker)]
        play.client_says(settle(client, b"ACK", third) + settle(client, b"ACK", first))
        read = acks(play.broker_reads())
        assert [each.items() >= settled(name, broker).items() for each, name in zip(read, "31", strict=True)]


@in_all_pairs
def test_cumulative_acks(client: bytes, broker: bytes) -> None:
    """The ACK of a MESSAGE settles what the client did not get behind it, and nothing that it got later."""
    with selecting(client, broker) as play:
        play.client_says(subscribe("1", "client"))
        play.broker_reads()
        play.broker_says(told(1, "0", broker))
        assert acks(play.broker_reads()) == [settled("0", broker)]  # nothing is owed
        numbers = [6, 1, 1, 7, 1, 8]
        play.broker_says(b"".join([told(each, str(at + 1), broker) for at, each in enumerate(numbers)]))
        first, fourth, sixth = gets(play, "1", "4", "6")
        for given, named in ((first, "3"), (fourth, "5"), (sixth, "6")):
            play.client_says(settle(client, b"ACK", given))
            (read,) = acks(play.broker_reads())
            assert read.items() >= settled(named, broker).items()
        play.broker_says(told(1, "7", broker))
        assert acks(play.broker_reads()) == [settled("7", broker)]


def test_a_nack_names_its_own_message() -> None:
    """What is refused is the client's message, not the one that it did not get."""
    with selecting(clients="artemis", nack={"rabbitmq": "requeue"}) as play:
        play.client_says(subscribe("1", "client", selector="n <> '1'"))
        play.broker_reads()
        play.broker_says(told(6, "1") + told(1, "2"))
        gets(play, "1")
        play.client_says(tell(b"NACK", id="a1"))
        assert b"\nid:a1\n" in play.broker_reads()


@pytest.mark.parametrize("end", [COMMIT, ABORT])
def test_transactions(end: bytes) -> None:
    """While an ACK is in a transaction, nothing behind it is acknowledged alone, for that would settle it, too."""
    with selecting() as play:
        play.client_says(subscribe("1", "client"))
        play.broker_reads()
        play.broker_says(told(6, "1") + told(1, "2"))
        gets(play, "1")
        play.client_says(BEGIN + tell(b"ACK", id="a1", transaction="t"))
        assert b"\nid:a2\ntransaction:t\n" in play.broker_reads()
        play.broker_says(told(1, "3"))
        play.nobody_gets_more()
        play.client_says(end)
        play.broker_reads()
        play.broker_says(told(1, "4"))
        if end is COMMIT:
            assert acks(play.broker_reads()) == [{"id": "a4"}]
            return
        play.nobody_gets_more()
        play.client_says(tell(b"ACK", id="a1"))
        assert acks(play.broker_reads()) == [{"id": "a4"}]


def test_several_cumulative_subscriptions() -> None:
    """RabbitMQ counts all messages together: the relay's ACK covers nothing that the client has not acknowledged."""
    with selecting(ignore=frozenset({"cumulative-acks"})) as play:
        play.client_says(subscribe("1", "client") + subscribe("2", "client", "/topic/u", None))
        play.broker_reads()
        play.broker_says(told(6, "1") + told(1, "2", id="2", place="/topic/u") + told(1, "3"))
        gets(play, "1", "2")
        play.client_tells_broker(tell(b"ACK", id="a1"))
        play.broker_says(told(1, "4"))
        play.nobody_gets_more()
        play.client_tells_broker(tell(b"ACK", id="a2"))
        play.broker_says(told(1, "5"))
        assert acks(play.broker_reads()) == [{"id": "a5"}]


def test_queues() -> None:
    """A message of a queue belongs to another consumer, unless the configuration lets it be dropped."""
    with selecting() as play:
        play.client_says(subscribe("1", "client-individual", "/queue/dropping"))
        assert b"selector" not in play.broker_reads()
        play.broker_says(told(1, "1", place="/queue/dropping"))
        assert acks(play.broker_reads()) == [{"id": "a1"}]
        play.client_says(subscribe("2", place="/queue/q"))
        play.client_gets_error(b"selectors are not possible at this broker")


def test_what_cannot_be_read() -> None:
    """A selector that is none is an ERROR, and no subscription."""
    with selecting() as play:
        play.client_says(subscribe("1", selector="n >"))
        play.client_gets_error(b"a selector cannot be applied")
        play.nobody_gets_more()


def test_ignored_elsewhere() -> None:
    """`ignore` has the relay deliver all where it does not apply selectors, whatever they are."""
    with selecting(ignore=frozenset({"selectors"})) as play:
        play.client_says(subscribe("1", place="/queue/q", selector="n >"))
        assert b"selector" not in play.broker_reads()
        play.broker_says(told(1, "1", place="/queue/q"))
        gets(play, "1")


def test_headers_as_the_client_knows_them() -> None:
    """RabbitMQ says an expiry otherwise; and JMSPriority is a header there."""
    with selecting() as play:
        play.client_says(subscribe("1", selector="JMSExpiration > 0 AND JMSPriority = 7"))
        play.broker_reads()
        own = b"\nexpiration:5\npriority:7\n"
        play.broker_says(told(1, "1").replace(b"\nn:1\n", own) + told(1, "2"))
        gets(play, "1")


def test_after_the_end() -> None:
    """What was on its way when the client ended its subscription is not for it either; later ones pass in runs."""
    with selecting() as play:
        play.client_says(subscribe("1") + tell(b"UNSUBSCRIBE", id="1"))
        play.broker_reads()
        play.broker_says(told(1, "1"))
        play.nobody_gets_more()
        for at in range(2, 20):
            play.client_says(subscribe(str(at), selector=None) + tell(b"UNSUBSCRIBE", id=str(at)))
        play.broker_reads()
        assert play.relay.session is not None
        assert not play.relay.session.subscriptions.selecting


@pytest.mark.parametrize(("most", "read"), [(1 << 26, 0), (1000, 1)], ids=["room", "none"])
def test_read_once(monkeypatch: pytest.MonkeyPatch, most: int, read: int) -> None:
    """A selector is read for the first MESSAGE, and kept as long as the subscription is open, where there is room."""
    known: list[bytes] = []

    def reading(said: bytes, product: str) -> Callable[[First], bool]:
        known.append(said)
        return selector(said, product)

    monkeypatch.setattr(mapping, "selector", reading)
    with selecting() as play:
        assert play.relay.session is not None
        kept = play.relay.session.kept
        empty = kept.size
        play.client_says(subscribe("1") + subscribe("2", selector="n > 7"))
        size, kept.most = kept.size, min(most, kept.size + most)
        play.broker_says(told(6, "1") + told(6, "2", id="2"))
        assert kept.size - size == (0 if read else 10 * PARSED)
        known.clear()
        play.broker_says(told(6, "3") + told(6, "4", id="2"))
        assert len(known) == 2 * read
        play.client_says(tell(b"UNSUBSCRIBE", id="1") + tell(b"UNSUBSCRIBE", id="2"))
        assert kept.size == empty
        gets(play, "1", "3")
        play.broker_reads()


def test_after_disconnect() -> None:
    """Nothing may follow DISCONNECT: the broker keeps what was on its way."""
    with selecting() as play:
        play.client_says(subscribe("1", "client-individual") + tell(b"DISCONNECT", receipt="r"))
        play.broker_reads()
        play.broker_says(told(1, "1"))
        play.nobody_gets_more()
        play.broker_tells_client(receipt("r"))


@in_all_cuts
@pytest.mark.parametrize("ack", ["auto", "client-individual"])
def test_others_pass_in_runs(cut: Cut, ack: str) -> None:
    """MESSAGEs of a subscription without a selector pass as they came, beside one with a selector."""
    with selecting(cut=cut) as play:
        play.client_says(subscribe("1", ack) + subscribe("2", ack, "/topic/u", None))
        play.broker_reads()
        for each in range(3):
            name = str(each)
            names = [f"{name}{at}" for at in range(5)]
            play.broker_says(b"".join([told(1, each, id="2", place="/topic/u") for each in names]))
            gets(play, *names)
        if COMPILED is not None:
            assert play.passed == (15 if cut is Cut.PASSED else 0)
        play.broker_says(told(1, "x"))
        if ack != "auto":
            assert acks(play.broker_reads()) == [{"id": "ax"}]


def test_another_broker_of_the_list() -> None:
    """ActiveMQ applies the selector itself; after a failover to RabbitMQ the relay does."""
    with started(map=MAP, product="activemq") as play:
        play.client_says(subscribe("1", "client"))
        assert b"\nselector:n > 5\n" in play.broker_reads()
        play.broker_says(told(1, "1"))
        play.client_reads()
        play.broker_goes()
        found(play, product="rabbitmq")
        assert b"selector" not in play.broker_reads()
        play.broker_says(told(1, "2") + told(6, "3"))
        assert acks(play.broker_reads()) == [{"id": "a2"}]
        gets(play, "3")


def test_a_move() -> None:
    """A subscription is at OLD with its selector, and at NEW without: there the relay applies it."""
    new = lasting("new", "b", profile=RABBITMQ, map=MapSettings("activemq", filter=("/queue/*",)))
    moving = Moving("off", old=lasting("old", "a", profile=ACTIVEMQ), new=new)
    said = subscribe("1", "client", "/queue/a")
    with moving.play as play:
        play.client_tells_broker(said, at="a")
        moving.to("both")
        play.broker_welcomes(at="b")
        assert play.broker_reads(at="b") == said.replace(b"selector:n > 5\n", b"") + b"\n"
        play.broker_says(told(6, "1", place="/queue/a") + told(1, "2", place="/queue/a"), at="b")
        play.broker_says(told(1, "3", place="/queue/a"), at="a")
        gets(play, "1", "3")
        play.client_says(tell(b"ACK", id="a1"))
        assert acks(play.broker_reads(at="b")) == [{"id": "a2"}]


STEPS = st.lists(
    st.sampled_from(
        ["fits", "fits", "does not", "does not", "ack", "ack inside", "begin", "commit", "abort"]
    ),
    max_size=30,
)


@given(STEPS, st.randoms(use_true_random=False))
@example(["fits", "does not", "begin", "ack inside", "does not", "abort", "does not", "ack"], Random(0))
def test_nothing_is_settled_unasked(steps: list[str], random: Random) -> None:
    """Against a model of RabbitMQ's cumulative ACKs: it never settles what the client did not acknowledge, and when the
    client has acknowledged all, nothing is left but what came while a transaction was open.
    """
    with selecting() as play:
        play.client_says(subscribe("1", "client"))
        play.broker_reads()
        unsettled: list[int] = []  # the broker's
        inside: list[int] = []  # the highest numbers that ACKs in the transaction name
        pending: list[int] = []  # the client's
        held: list[int] = []  # what it has acknowledged in the transaction
        opened, number = False, 0

        def obey() -> None:
            for each in play.broker_reads().split(b"\0"):
                command, *lines = each.strip(b"\n").split(b"\n")
                if command == b"ACK":
                    name = next(int(line[4:]) for line in lines if line.startswith(b"id:a"))
                    if b"transaction:t" in lines:
                        inside.append(name)
                    else:
                        unsettled[:] = [each for each in unsettled if each > name]
                elif command == b"COMMIT":
                    unsettled[:] = [each for each in unsettled if each > max([0, *inside])]
            wanted = {each for each in unsettled if each % 2}
            assert wanted == {*pending, *held}

        for step in [*steps, "abort", "does not"]:
            match step:
                case "fits" | "does not":
                    number += 2 - number % 2 if step == "does not" else 1 + number % 2
                    unsettled.append(number)
                    pending += [number] * (step == "fits")
                    play.broker_says(told(9 if step == "fits" else 1, str(number)))
                case "ack" | "ack inside" if pending and (opened if step == "ack inside" else not held):
                    last = random.choice(pending)
                    covered = [each for each in pending if each <= last]
                    pending = [each for each in pending if each > last]
                    held += covered if step == "ack inside" else []
                    more = {"transaction": "t"} if step == "ack inside" else {}
                    play.client_says(tell(b"ACK", id=f"a{last}", **more))
                case "begin" if not opened:
                    opened = True
                    play.client_says(BEGIN)
                case "commit" | "abort" if opened:
                    pending = sorted([*pending, *held]) if step == "abort" else pending
                    opened, held = False, []
                    play.client_says(COMMIT if step == "commit" else ABORT)
                    obey()
                    inside.clear()
            obey()
            play.client_reads()
        if pending:
            play.client_says(tell(b"ACK", id=f"a{pending.pop()}"))
            pending.clear()
            obey()
        play.broker_says(told(1, str(number + 2 - number % 2)))
        assert play.broker_reads().startswith(b"ACK\nid:a")
