"""The judge: a history that is right gives no finding, and one line that is false is named by its rule."""

from collections import Counter

import pytest

from sim.brokers import PRODUCTS
from sim.clients import Habit
from sim.history import Arrival, Event, History, What
from sim.judge import RULES, judge
from sim.plan import CALM, PLAIN, Scene
from sim.stomp import Frame

START = "a.0 fate starts\nb.0 fate starts\nrelay.0 fate starts\n"
CONNECTS = """\
a.1 connected 1.2
c1.1 connected
c1.1 sent CONNECT accept-version:1.2
c1.1 read CONNECTED version:1.2 heart-beat:1000,1000
"""
SUBSCRIBES = """\
c1.1 sent SUBSCRIBE id:1 destination:/queue/a ack:client receipt:r-1
c1.1 read RECEIPT receipt-id:r-1
"""
SEND = "c1.1 sent SEND destination:/queue/a receipt:r-2 x:v c1.1\n"
TAKEN = "a.1 took SEND destination:/queue/a x:v c1.1\n"
RECEIPT = "c1.1 read RECEIPT receipt-id:r-2\n"
GIVES = "a.1 gave MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1\n"
READS = "c1.1 read MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1\n"
ACKED = READS.replace(" read ", " acked ")
ACK = "c1.1 sent ACK id:m-1\n"
ASKING_ACK = "c1.1 sent ACK id:m-1 receipt:r-5\nc1.1 read RECEIPT receipt-id:r-5\n"
SETTLED = "a.1 settled c1.1\n"
ABORTS = """\
c1.1 sent BEGIN transaction:t1
c1.1 sent SEND destination:/queue/b transaction:t1 c1.2
c1.1 sent ABORT transaction:t1
"""
SENDS = "c1.1 sent SEND destination:/queue/b x:plain c1.3\nc1.1 sent SEND destination:/queue/b c1.4\n"
THIRD = "a.1 took SEND destination:/queue/b x:plain c1.3\n"
FOURTH = "a.1 took SEND destination:/queue/b c1.4\n"
UNSUBSCRIBES = "c1.1 sent UNSUBSCRIBE id:1 receipt:r-3\nc1.1 read RECEIPT receipt-id:r-3\n"
DISCONNECT = "c1.1 sent DISCONNECT receipt:r-4\n"
LAST = "c1.1 read RECEIPT receipt-id:r-4\n"
END = "c1.1 ended left\n"
CALMS = "relay.0 calm\n"
ROWS = "".join([f"journal client SEND c1.{number} 1\n" for number in (1, 2, 3, 4)])
PARTS = (
    START,
    CONNECTS,
    SUBSCRIBES,
    SEND,
    TAKEN,
    RECEIPT,
    GIVES,
    READS,
    ACKED,
    ACK,
    SETTLED,
    ABORTS,
    SENDS,
    THIRD,
)
LEAVES = DISCONNECT + LAST + END
RIGHT = "".join([*PARTS, FOURTH, UNSUBSCRIBES, LEAVES, CALMS, ROWS, "journal broker MESSAGE c1.1 1\n"])


def _event(at: float, line: str) -> Event:
    """Return the event of a line, as a history prints it. The last word of a frame is its body, if it is no header."""
    who, what, *words = line.split()
    name, session = who.split(".")
    kind = What(what)
    if kind not in (What.SENT, What.READ, What.TOOK, What.GAVE, What.ACKED) and words[:1] != ["MESSAGE"]:
        return Event(at, name, kind, int(session), None, " ".join(words))
    pairs = [word.partition(":") for word in words[1:] if ":" in word]
    headers = {name.encode(): value.replace("_", " ").encode() for name, _, value in pairs}
    body = words[-1].encode() if ":" not in words[-1] and len(words) > 1 else b""
    return Event(at, name, kind, int(session), Frame(words[0].encode(), headers, body))


def _rules(text: str, kind: str = "failover", confirm: bool = True, seen: bool = True) -> set[str]:
    """Return the rules that find something. Beside events there are lines of counters, of the journal, and of seconds
    to wait; an event comes 0.1 s after the one before, but for connections of brokers. The relay reads all at once, and
    brokers confirm each SEND.
    """
    brokers = {"a": (PRODUCTS[-1], b"1.2"), "b": (PRODUCTS[-1], b"1.2")}
    settings = PLAIN | {"confirm": confirm, "beats": True}
    counters: Counter[str] = Counter()
    rows: Counter[tuple[str, bytes, bytes]] = Counter()
    scene = Scene(kind, brokers, {"c1": Habit(b"1.2", beats=True)}, CALM, settings)
    history = History(scene=scene, counters=counters, brokers_seen=seen)
    at = 0.0
    for line in text.splitlines():
        match line.split():
            case ["counter", name, count]:
                counters[name] = int(count)
            case ["journal", side, command, body, count]:
                rows[side, command.encode(), body.encode()] = int(count)
                history.facts["journal"] = rows, (), False
            case ["wait", seconds]:
                at += float(seconds)
            case _:
                at += 0.0 if line.endswith(" met") else 0.1
                event = _event(at, line)
                history.events.append(event)
                key, behind = (event.who, event.session), 0
                if event.what is What.TOOK:
                    behind = sum((each.who, each.session) == key for each in history.events)
                    asked = [each.headers.get(b"receipt", b"") for each in history if each.body == event.body]
                    event = event._replace(frame=Frame(b"RECEIPT", {b"receipt-id": asked[0]}))
                if event.what in (What.SENT, What.GAVE, What.TOOK) and seen:
                    history.arrived[key].append(Arrival(at, event.frame, behind))
                    history.owners["a", 1] = "c1", 1
                if event.what is What.ENDED and seen:
                    history.arrived[key].append(Arrival(at, None))
    return {finding.rule for finding in judge(history)}


@pytest.mark.parametrize("kind", ["plain", "failover", "fanout"])
@pytest.mark.parametrize("confirm", [True, False])
def test_what_is_right_gives_no_finding(kind: str, confirm: bool) -> None:
    """A client that sends, reads, aborts and leaves, and a broker that does what it is asked for. In a fan-out what
    another group lacks is counted.
    """
    lacks = (3 if confirm else 1) if kind == "fanout" else 0
    assert _rules(f"{RIGHT}counter possibly_lost {lacks}\n", kind, confirm) == set()
    assert _rules(RIGHT, kind, confirm) == ({"each_group_counts"} if lacks else set())


HALF = "c1.1 fate half-closes\nc1.1 ended closed\n"
FIRST = RECEIPT.replace("r-2", "r-1")
TWO = THIRD.replace("x:plain c1.3", "c1.2") + THIRD
COMMITS = ABORTS.replace("ABORT transaction:t1", "COMMIT transaction:t1 receipt:r-5")
COMMITTED = f"{COMMITS}c1.1 read RECEIPT receipt-id:r-5\na.1 took SEND destination:/queue/b c1.2\n"
ERROR = "c1.1 read ERROR message:unknown_command\nc1.1 ended closed\n"
SECOND = GIVES.replace("m-1 from:a c1.1", "m-2 from:a c1.3")

FALSE = [
    ("nothing_is_wrong", END, f"{END}relay.0 wrong an exception reached the reactor\n"),
    # twice; unasked; beside an ERROR; before it was asked for
    ("a_receipt_comes_once", RECEIPT, RECEIPT + RECEIPT),
    ("a_receipt_comes_once", RECEIPT, RECEIPT + RECEIPT.replace("r-2", "r-9")),
    ("a_receipt_comes_once", RECEIPT, f"{RECEIPT}c1.1 read ERROR message:no receipt-id:r-2\n"),
    ("a_receipt_comes_once", "c1.1 read CONNECTED version:1.2 heart-beat:1000,1000\n", ""),
    ("a_receipt_comes_once", SEND + TAKEN + RECEIPT, TAKEN + RECEIPT + SEND),
    # a broker gave it; soon after that
    ("a_receipt_passes", RECEIPT, "wait 4\n"),
    # before a broker has the message; though its broker lost it; though none took it; of a COMMIT
    ("a_receipt_is_true", TAKEN + RECEIPT, RECEIPT + TAKEN),
    ("a_receipt_is_true", RECEIPT, f"a.0 forgot c1.1\n{RECEIPT}"),
    ("a_receipt_is_true", TAKEN + RECEIPT, RECEIPT),
    ("a_receipt_is_true", ABORTS, COMMITTED),
    ("nothing_uncommitted_is_taken", END, f"a.1 took SEND destination:/queue/b c1.2\n{END}"),
    ("nothing_uncommitted_is_taken", END, f"a.1 took SEND destination:/queue/b c1.9\n{END}"),
    # a message is missing in the end
    ("what_is_taken_is_kept", CALMS, f"{CALMS}a.0 kept c1.3\n"),
    ("order_is_kept", THIRD + FOURTH, FOURTH + THIRD),
    # at one broker, or at two
    ("a_copy_is_marked", THIRD, THIRD + THIRD),
    ("a_copy_is_marked", THIRD, THIRD + THIRD.replace("a.1", "b.1")),
    # of another destination; after the end of its subscription; more often than brokers gave it; never given
    ("only_what_was_subscribed", READS, READS.replace("/a", "/b")),
    ("only_what_was_subscribed", UNSUBSCRIBES, UNSUBSCRIBES + GIVES + READS),
    ("only_what_was_subscribed", READS, READS + READS),
    ("only_what_was_subscribed", GIVES, ""),
    # another value, taken or read; a trace; a receipt of the relay's
    ("values_arrive", TAKEN, TAKEN.replace("x:v", "x:w")),
    ("values_arrive", TAKEN, TAKEN.replace("/a", "/c")),
    ("values_arrive", GIVES, GIVES.replace("from", "x:w from")),
    ("values_arrive", READS, READS.replace("from", "relay-trace:t from")),
    ("values_arrive", LAST, LAST + LAST.replace("r-4", "relay-1-receipt-1")),
    (
        "a_message_has_one_trace",
        THIRD + FOURTH,
        (THIRD + FOURTH).replace("destination", "relay-trace:t destination"),
    ),
    ("an_ack_is_for_its_message", ACKED, ACKED.replace("from:a", "from:b")),
    # in a transaction; in calm weather
    (
        "an_ack_takes_effect",
        ACKED + ACK + SETTLED + ABORTS,
        ACKED + ACK.replace("m-1", "m-1 transaction:t1") + COMMITTED,
    ),
    ("an_ack_takes_effect", ACKED + ACK + SETTLED, f"{CALMS}wait 60\n{ACKED}{ACK}"),
    # its RECEIPT came too early
    ("an_ack_takes_effect", ACK + SETTLED, ASKING_ACK + SETTLED),
    ("nothing_is_wrong", CALMS, f"{CALMS}c1.1 wrong got no RECEIPT r-9 in calm weather\n"),
    (
        "deliveries_keep_their_order",
        GIVES + READS,
        GIVES + SECOND + SECOND.replace("a.1 gave", "c1.1 read") + READS,
    ),
    ("deliveries_keep_their_order", TAKEN + RECEIPT, SECOND.replace("n:1", "n:2") + TAKEN + RECEIPT),
    # the last one of a connection
    ("deliveries_keep_their_order", READS + ACKED + ACK + SETTLED, "wait 4\n"),
    # nobody was told; an ERROR says nothing of it
    (
        "deliveries_keep_their_order",
        UNSUBSCRIBES,
        GIVES.replace("c1.1", "c1.4") + SECOND + SECOND.replace("a.1 gave", "c1.1 read"),
    ),
    ("nothing_is_lost_quietly", FOURTH, ""),
    ("nothing_is_lost_quietly", FOURTH + UNSUBSCRIBES + LEAVES, "wait 9\n" + END),
    (
        "nothing_is_lost_quietly",
        FOURTH + UNSUBSCRIBES + LEAVES,
        f"c1.1 sent NONSENSE\n{ERROR}",
    ),
    ("nothing_comes_late", END, f"{END}wait 10\n{FOURTH}"),
    *[
        ("counters_fit", CALMS, f"{CALMS}counter {each}\n")
        for each in ("sessions_opened 0", "sessions_connected 2")
    ],
    *[
        ("counters_fit", CALMS, f"{CALMS}counter {each}\n")
        for each in ("client_frames 99", "clients_vanished 1", "broker_frames 99", "frames_resent 1")
    ],
    ("counters_fit", CALMS, f"a.0 fate is killed\n{CALMS}counter frames_resent 1\n"),
    ("an_alarm_has_a_cause", CALMS, f"{CALMS}counter possibly_lost 1\n"),
    # a row too few; one too many; of nobody
    ("the_journal_equals_the_history", "c1.1 1\n", "c1.1 0\n"),
    ("the_journal_equals_the_history", "c1.3 1\n", "c1.3 2\n"),
    ("the_journal_equals_the_history", ROWS, f"{ROWS}journal client SEND c9.1 1\n"),
    # no ERROR; an ERROR for the loss of one of two brokers, or for a COMMIT without a COMMIT
    ("nobody_is_disturbed", LEAVES, "c1.1 ended reset\n"),
    ("nobody_is_disturbed", LAST, "c1.1 read ERROR message:the_broker_was_lost\n"),
    ("nobody_is_disturbed", LAST, "c1.1 read ERROR message:the_transaction_cannot_be_committed\n"),
    # RECEIPTs and CONNECTED that come late, or never; nonsense without an ERROR
    ("everybody_is_served", RECEIPT, f"wait 8\n{RECEIPT}"),
    ("everybody_is_served", LAST + END + CALMS, f"{CALMS}wait 6\n{LAST}{END}"),
    ("everybody_is_served", RECEIPT, "wait 8\n"),
    ("everybody_is_served", CALMS, f"{CALMS}c1.2 connected\nwait 8\nc1.2 ended left\n"),
    ("a_session_ends", LEAVES, "c1.1 sent NONSENSE\n"),
    # half a close; DISCONNECT
    ("who_reads_to_the_end_has_all", START, f"{START}wait 30\n", FIRST, "", LEAVES, HALF),
    ("who_reads_to_the_end_has_all", RECEIPT, ""),
    # DISCONNECT; half a close; silence; another connection
    ("a_session_ends", END, ""),
    ("a_session_ends", LEAVES, "c1.1 fate half-closes\n"),
    ("a_session_ends", LEAVES, "c1.1 fate falls silent\n"),
    ("a_session_ends", LEAVES, "c1.2 connected\nc1.2 ended left\n"),
    ("a_session_ends", LEAVES, "", CALMS, f"{CALMS}relay.0 fate stops\n"),
    ("a_session_ends", LEAVES, f"c1.1 fate falls silent\nwait 16\n{LEAVES}"),
    ("a_broker_is_not_flooded", END, END + "a.2 met\n" * 40),
    (
        "nobody_goes_to_a_paused_broker",
        END,
        f"relay.0 fate tcp://a is taken out of service\nwait 4\na.2 met\n{END}",
    ),
]


def _changed(*changes: str) -> str:
    """Return what is right with some lines replaced, each by the next."""
    text = RIGHT
    for lines, instead in zip(changes[::2], changes[1::2], strict=True):
        assert lines in text
        text = text.replace(lines, instead)
    return text


@pytest.mark.parametrize(("rule", "changes"), [(rule, changes) for rule, *changes in FALSE])
def test_what_is_false_is_named(rule: str, changes: list[str]) -> None:
    """Some lines of what is right are replaced, left out, or come twice."""
    assert rule in _rules(_changed(*changes))


def test_every_rule_has_a_false_history() -> None:
    """A rule that finds nothing in any history of this module is not known to find anything."""
    assert {"each_group_counts", *[rule for rule, *_ in FALSE]} == {rule.__name__ for rule in RULES}


UNSURE = "c1.1 read ERROR message:the_outcome_of_a_transaction_is_unknown\nc1.1 ended closed\n"
WAITS = f"a.0 fate is killed\nb.0 fate is killed\nwait 8\na.0 fate starts\n{RECEIPT}"
LOST = f"a.0 fate is killed\na.0 fate starts\n{THIRD}"


@pytest.mark.parametrize(
    "changes",
    [
        (THIRD, THIRD + THIRD.replace("a.1", "b.1").replace("/b ", "/b relay-resent:true ")),
        (ABORTS, COMMITS, THIRD, TWO, LEAVES, UNSURE),
        (RECEIPT, WAITS),
        (THIRD + FOURTH, LOST, CALMS, f"{CALMS}counter possibly_lost 1\n"),
        (
            LEAVES,
            "c1.1 fate falls silent\nwait 5\nc1.1 read ERROR message:heart-beat_missed\nc1.1 ended closed\n",
        ),
    ],
)
def test_what_the_documents_allow_is_no_finding(changes: tuple[str, ...]) -> None:
    """A copy that is marked; a COMMIT of unknown outcome; a wait where no broker was well; a loss that is counted;
    an ERROR for silence.
    """
    assert _rules(_changed(*changes), confirm=LOST not in changes) == set()


UNSEEN = """\
relay.0 fate starts
c1.1 connected
c1.1 sent CONNECT
c1.1 read CONNECTED version:1.2
c1.1 sent SUBSCRIBE id:1 destination:/queue/auto ack:auto
c1.1 sent SEND destination:/queue/a receipt:r-1 c1.1
c1.1 sent SEND destination:/queue/a receipt:r-2 c1.2
c1.1 sent SEND destination:/queue/auto receipt:r-3 c1.3
c1.1 sent SEND destination:/queue/a transaction:t c1.4
c1.1 read RECEIPT receipt-id:r-1
c1.1 read RECEIPT receipt-id:r-2
c1.1 read RECEIPT receipt-id:r-3
a.0 fate SIGKILL
relay.0 calm
a.0 kept c1.1
a.0 kept c1.2
b.0 kept c1.1
"""


@pytest.mark.parametrize(
    ("lines", "instead", "found"),
    [
        ("", "", set()),
        # not at any broker any more; of a queue with `ack:auto` one cannot know
        ("a.0 kept c1.2\n", "", {"a_receipt_is_true", "nothing_is_lost_quietly"}),
        # read by a client
        ("a.0 kept c1.2\n", "c1.1 read MESSAGE subscription:1 destination:/queue/auto c1.2\n", set()),
        # never committed
        ("b.0 kept c1.1\n", "b.0 kept c1.4\n", {"nothing_uncommitted_is_taken"}),
        # the wrong way round; so it may come if another broker has it, too
        ("b.0 kept c1.1\n", "", set()),
        ("a.0 kept c1.1\na.0 kept c1.2\n", "a.0 kept c1.2\na.0 kept c1.1\n", set()),
        ("a.0 kept c1.1\na.0 kept c1.2\nb.0", "a.0 kept c1.2\na.0 kept c1.1\na.0", {"order_is_kept"}),
        # a consumer gave it back
        (
            "a.0 kept c1.1\na.0 kept c1.2\nb.0 kept",
            "a.0 kept c1.2\na.0 kept MESSAGE redelivered:true",
            set(),
        ),
    ],
)
def test_brokers_whose_events_are_absent(lines: str, instead: str, found: set[str]) -> None:
    """What real brokers took is known by what clients read and what is left in the end."""
    assert lines in UNSEEN
    assert _rules(UNSEEN.replace(lines, instead, 1), seen=False) == found
