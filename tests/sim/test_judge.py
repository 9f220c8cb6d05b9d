"""The judge: a history that is right gives no finding, and one line that is false is named by its rule."""

from collections import Counter

import pytest

from sim.brokers import PRODUCTS
from sim.clients import Habit
from sim.history import Event, History, What
from sim.judge import RULES, judge
from sim.plan import CALM, PLAIN, Scene
from sim.stomp import Frame

RIGHT = """\
a.0 fate starts
relay.0 fate starts
a.1 connected 1.2
c1.1 connected
c1.1 sent CONNECT accept-version:1.2
c1.1 read CONNECTED version:1.2 heart-beat:1000,1000
c1.1 sent SUBSCRIBE id:1 destination:/queue/a ack:client receipt:r-1
c1.1 read RECEIPT receipt-id:r-1
c1.1 sent SEND destination:/queue/a receipt:r-2 x:v c1.1
a.1 took SEND destination:/queue/a x:v c1.1
c1.1 read RECEIPT receipt-id:r-2
a.1 gave MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1
c1.1 read MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1
c1.1 acked MESSAGE from:a c1.1
c1.1 sent ACK id:m-1
a.1 settled c1.1
c1.1 sent BEGIN transaction:t1
c1.1 sent SEND destination:/queue/b transaction:t1 c1.2
c1.1 sent ABORT transaction:t1
c1.1 sent SEND destination:/queue/b x:plain c1.3
c1.1 sent SEND destination:/queue/b c1.4
a.1 took SEND destination:/queue/b x:plain c1.3
a.1 took SEND destination:/queue/b c1.4
c1.1 sent UNSUBSCRIBE id:1 receipt:r-3
c1.1 read RECEIPT receipt-id:r-3
c1.1 sent DISCONNECT receipt:r-4
c1.1 read RECEIPT receipt-id:r-4
c1.1 ended left
relay.0 calm
"""


def _event(at: float, line: str) -> Event:
    """Return the event of a line, as a history prints it. The last word of a frame is its body, if it is no header."""
    who, what, *words = line.split()
    name, session = who.split(".")
    kind = What(what)
    if kind not in (What.SENT, What.READ, What.TOOK, What.GAVE, What.ACKED):
        return Event(at, name, kind, int(session), None, " ".join(words))
    pairs = [word.partition(":") for word in words[1:] if ":" in word]
    headers = {name.encode(): value.replace("_", " ").encode() for name, _, value in pairs}
    body = words[-1].encode() if ":" not in words[-1] and len(words) > 1 else b""
    return Event(at, name, kind, int(session), Frame(words[0].encode(), headers, body))


def _rules(
    text: str,
    *,
    kind: str = "failover",
    confirm: bool = True,
    counters: dict[str, int] | None = None,
    seen: bool = True,
    **facts: object,
) -> set[str]:
    """Return the rules that find something in this history, with these counters of the relay."""
    brokers = {"a": (PRODUCTS[-1], b"1.2"), "b": (PRODUCTS[-1], b"1.2")}
    scene = Scene(
        kind, brokers, {"c1": Habit(b"1.2", beats=True)}, CALM, PLAIN | {"confirm": confirm, "beats": True}
    )
    history = History(scene=scene, counters=counters or {}, brokers_seen=seen, **facts)
    at = 0.0
    for line in text.splitlines():
        at += 0.0 if line.endswith(" met") else 0.1
        history.events.append(_event(at, line))
    return {finding.rule for finding in judge(history)}


@pytest.mark.parametrize("kind", ["plain", "failover", "fanout"])
@pytest.mark.parametrize("confirm", [True, False])
def test_what_is_right_gives_no_finding(kind: str, confirm: bool) -> None:
    """A client that sends, reads, aborts and leaves, and a broker that does what it is asked for."""
    assert _rules(RIGHT, kind=kind, confirm=confirm) == set()


SENDS = "a.1 took SEND destination:/queue/b x:plain c1.3\na.1 took SEND destination:/queue/b c1.4\n"
LEAVES = "c1.1 sent DISCONNECT receipt:r-4\nc1.1 read RECEIPT receipt-id:r-4\nc1.1 ended left\n"
CONFIRMED = "a.1 took SEND destination:/queue/a x:v c1.1\nc1.1 read RECEIPT receipt-id:r-2\n"
GIVEN = """a.1 gave MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1
c1.1 read MESSAGE subscription:1 destination:/queue/a ack:m-1 from:a c1.1
"""
ACKED = "c1.1 acked MESSAGE from:a c1.1\nc1.1 sent ACK id:m-1\na.1 settled c1.1\n"
PAUSE = "relay.0 logged\n" * 10  # a second
GIVES, READS = GIVEN.splitlines(keepends=True)


def _swapped(lines: str) -> str:
    return "".join(reversed(lines.splitlines(keepends=True)))


FALSE = [
    ("nothing_is_wrong", LEAVES, LEAVES + "relay.0 wrong an exception reached the reactor\n"),
    # a RECEIPT twice; one that nobody asked for
    ("a_receipt_comes_once", CONFIRMED, CONFIRMED + "c1.1 read RECEIPT receipt-id:r-2\n"),
    ("a_receipt_comes_once", CONFIRMED, CONFIRMED + "c1.1 read RECEIPT receipt-id:r-9\n"),
    # a RECEIPT before a broker has the message; for a message that its broker lost; for one that no broker took
    ("a_receipt_is_true", CONFIRMED, _swapped(CONFIRMED)),
    ("a_receipt_is_true", CONFIRMED, CONFIRMED.replace("c1.1 read", "a.0 forgot c1.1\nc1.1 read")),
    ("a_receipt_is_true", CONFIRMED, "c1.1 read RECEIPT receipt-id:r-2\n"),
    ("no_error_and_receipt", LEAVES, "c1.1 read ERROR message:no receipt-id:r-2\n" + LEAVES),
    ("nothing_uncommitted_is_taken", LEAVES, LEAVES + "a.1 took SEND destination:/queue/b c1.2\n"),
    ("order_is_kept", SENDS, _swapped(SENDS)),
    # two copies at one broker, or at two
    ("a_copy_is_marked", SENDS, SENDS + SENDS),
    ("a_copy_is_marked", SENDS, SENDS + SENDS.replace("a.1", "b.1")),
    # a MESSAGE of another destination; after the end of the subscription; more often than it was given; never given
    ("only_what_was_subscribed", LEAVES, GIVEN.replace("/a", "/b").replace("n:1", "n:2") + LEAVES),
    ("only_what_was_subscribed", LEAVES, GIVEN + LEAVES),
    ("only_what_was_subscribed", GIVEN, GIVEN + READS),
    ("only_what_was_subscribed", GIVEN, READS),
    # another value; a value of the relay's; a copy of a broker of which the client has none
    ("values_arrive", CONFIRMED, CONFIRMED.replace("x:v", "x:w")),
    ("values_arrive", READS, READS.replace("from", "relay-trace:t from")),
    (
        "a_message_has_one_trace",
        SENDS,
        SENDS.replace("x:plain", "x:plain relay-trace:t").replace("/b c", "/b relay-trace:t c"),
    ),
    ("an_ack_is_for_its_message", "from:a c1.1\nc1.1 sent ACK", "from:b c1.1\nc1.1 sent ACK"),
    # a SEND that no broker took
    ("nothing_is_lost_quietly", SENDS, SENDS.splitlines(keepends=True)[0]),
    # a MESSAGE before one that its broker gave first
    (
        "deliveries_keep_their_order",
        GIVEN,
        GIVES
        + GIVES.replace("m-1 from:a c1.1", "m-2 from:a c2.1")
        + READS.replace("m-1 from:a c1.1", "m-2 from:a c2.1")
        + READS,
    ),
    # nonsense without an ERROR; an ERROR that says nothing of a SEND that was lost; half a close without a RECEIPT
    ("who_errs_is_told", LEAVES, "c1.1 sent NONSENSE\n"),
    (
        "an_error_says_what_may_be_lost",
        SENDS,
        SENDS.splitlines(keepends=True)[0] + "c1.1 read ERROR message:unknown_command\n",
    ),
    (
        "who_half_closes_is_answered",
        LEAVES,
        PAUSE * 21 + "c1.1 sent UNSUBSCRIBE id:1 receipt:r-5\nc1.1 fate half-closes\nc1.1 ended closed\n",
    ),
    ("nothing_comes_late", LEAVES, LEAVES + PAUSE * 10 + "a.1 took SEND destination:/queue/b c1.4\n"),
    ("silence_is_noticed", LEAVES, "c1.1 fate falls silent\n"),
    ("a_broker_is_not_flooded", LEAVES, "a.2 met\n" * 20 + LEAVES),
    (
        "nobody_goes_to_a_paused_broker",
        LEAVES,
        "relay.0 fate tcp://a is taken out of service\n" + PAUSE * 4 + "a.2 met\n" + LEAVES,
    ),
    ("nothing_of_the_relays_own", LEAVES, "c1.1 read RECEIPT receipt-id:relay-1-receipt-1\n" + LEAVES),
    # an ACK that was committed, and has no effect; a RECEIPT that comes long after the weather has ended
    (
        "a_commit_is_whole",
        ACKED,
        "c1.1 acked MESSAGE from:a c1.1\nc1.1 sent ACK id:m-1 transaction:t0\n"
        "c1.1 sent COMMIT transaction:t0 receipt:r-5\n"
        "c1.1 read RECEIPT receipt-id:r-5\n",
    ),
    (
        "everybody_is_served_soon",
        LEAVES + "relay.0 calm\n",
        "relay.0 calm\n" + LEAVES.replace("c1.1 read", PAUSE * 8 + "c1.1 read"),
    ),
    # the end of the connection without an ERROR; an ERROR for the loss of one of two brokers
    ("nobody_is_disturbed", LEAVES, "c1.1 ended reset\n"),
    # DISCONNECT and no end; a RECEIPT a long time after its SEND
    ("a_session_ends", LEAVES, LEAVES.replace("c1.1 ended left\n", "")),
    (
        "a_receipt_is_not_withheld",
        CONFIRMED,
        CONFIRMED.replace("c1.1 read", "relay.0 logged\n" * 80 + "c1.1 read"),
    ),
    ("nobody_is_disturbed", LEAVES, "c1.1 read ERROR message:the_broker_was_lost\nc1.1 ended closed\n"),
]


@pytest.mark.parametrize(("rule", "lines", "instead"), FALSE)
def test_what_is_false_is_named(rule: str, lines: str, instead: str) -> None:
    """Some lines of what is right are replaced, left out, or come twice."""
    assert lines in RIGHT
    assert rule in _rules(RIGHT.replace(lines, instead))


JOURNAL = "the_journal_equals_the_history"
PROVED = (
    "who_errs_is_told",
    "an_error_says_what_may_be_lost",
    "who_half_closes_is_answered",
    "nothing_comes_late",
    "silence_is_noticed",
    "a_broker_is_not_flooded",
    "nobody_goes_to_a_paused_broker",
    "an_alarm_has_a_cause",
    "nothing_of_the_relays_own",
    "a_commit_is_whole",
    "an_ack_takes_effect",
    "everybody_is_served_soon",
)
"""Rules for which `sim/defects` has defects."""


def test_every_rule_has_a_false_history() -> None:
    """A rule that finds nothing in any history of this module is not known to find anything."""
    found = {*[rule for rule, _, _ in FALSE], "counters_fit", "an_alarm_has_a_cause", JOURNAL, *PROVED}
    assert found == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    ("name", "count", "rule"),
    [
        ("sessions_opened", 0, "counters_fit"),
        ("sessions_connected", 2, "counters_fit"),
        ("client_frames", 99, "counters_fit"),
        ("clients_vanished", 1, "counters_fit"),
        ("possibly_lost", 1, "an_alarm_has_a_cause"),
    ],
)
def test_counters_fit(name: str, count: int, rule: str) -> None:
    """Less than what clients have seen is counted, or more than they did."""
    assert _rules(RIGHT, counters={name: count}) == {rule}


@pytest.mark.parametrize(
    ("row", "count", "found"),
    [("c1.2", 1, set()), ("c1.1", 0, {JOURNAL}), ("c1.1", 2, {JOURNAL}), ("c9.1", 1, {JOURNAL})],
)
def test_the_journal_equals_the_history(row: str, count: int, found: set[str]) -> None:
    """A row is missing, or one too many."""
    rows = Counter({("client", b"SEND", b"c1.%d" % number): 1 for number in (1, 2, 3, 4)})
    rows["broker", b"MESSAGE", b"c1.1"] = 1
    rows["client", b"SEND", row.encode()] = count
    assert _rules(RIGHT, journal=(rows, (), False)) == found


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
    ],
)
def test_brokers_whose_events_are_absent(lines: str, instead: str, found: set[str]) -> None:
    """What real brokers took is known by what clients read and what is left in the end."""
    assert lines in UNSEEN
    assert _rules(UNSEEN.replace(lines, instead, 1), seen=False) == found


@pytest.mark.parametrize(("length", "found"), [(10, set()), (80, {"a_receipt_is_not_withheld"})])
def test_an_outage_explains_a_wait(length: int, found: set[str]) -> None:
    """A RECEIPT may come late where no broker was well for long enough to give it."""
    down = "a.0 fate is killed\nb.0 fate is killed\n"
    text = CONFIRMED.replace(
        "c1.1 read",
        down + "relay.0 logged\n" * 80 + "a.0 fate starts\n" + "relay.0 logged\n" * length + "c1.1 read",
    )
    assert _rules(RIGHT.replace(CONFIRMED, text)) == found


@pytest.mark.parametrize(("counted", "found"), [(0, {"nothing_is_lost_quietly"}), (1, set())])
def test_what_may_be_lost_is_counted(counted: int, found: set[str]) -> None:
    """Without `confirm` a SEND may be lost with its broker, and the counter has to say so."""
    killed = SENDS.splitlines(keepends=True)[0] + "a.0 fate is killed\na.0 fate starts\n"
    text = RIGHT.replace(SENDS, killed)
    assert _rules(text, confirm=False, counters={"possibly_lost": counted}) == found


@pytest.mark.parametrize(
    ("lines", "instead"),
    [
        (SENDS, SENDS + SENDS.replace("a.1", "b.1").replace("/b ", "/b relay-resent:true ")),
        (LEAVES, "c1.1 read ERROR message:the_transaction_cannot_be_committed\nc1.1 ended closed\n"),
    ],
)
def test_what_the_documents_allow_is_no_finding(lines: str, instead: str) -> None:
    """A copy that is marked as sent again, and an ERROR for a transaction whose broker was lost."""
    assert _rules(RIGHT.replace(lines, instead)) == set()
