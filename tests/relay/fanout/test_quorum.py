"""What a quorum confirms, and groups that are given up."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.fanout.quorum import Confirmation, Confirmations, Outcome
from stomprelay.relay.model.listener import LossPolicy
from tests.playbook import listener
from tests.relay.frames import receipt, send
from tests.relay.several import SOON, begun, fan_out, fanned, lasting, routed

ANSWERS = ("confirm", "release", "refuse")


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
    for receipt_id in (b"x", b"z"):  # frames that could not be sent
        confirmations.ask(unsent := Confirmation(receipt_id, range(3), 1, crucial=True))
        confirmations.withdraw(unsent)
    assert confirmations.asked == 3 * len(every)
    decided: list[Confirmation[int]] = []
    given_answers: dict[tuple[int, str], list[str]] = {}
    for party, id, answer in answers:
        given_answers.setdefault((party, id), []).append(answer)
        decided += getattr(confirmations, answer)(party, id.encode())
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
    why = b"(none could be had in 1 attempt)"
    detail = b"upstream main needs 2 of 3 groups; failed: main-1 %b, main-3 %b" % (why, why)
    play.client_gets_error(b"the quorum cannot be reached", receipt=b"1", detail=detail)
    play.broker_is_closed(at="b")
    assert play.counters["sessions_given_up"] == 1


def test_a_frame_that_waited_and_cannot_be_sent() -> None:
    """Its group is given up; where no other is left, or none is enough, the client is told so of its receipt."""
    with begun(listener(fan_out(2), loss=LossPolicy.REJECT), b"1.2", "ab", b"1.0", b"1.2") as play:
        play.broker_is_blocked(at="a")
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\nb\nreceipt:r\n\n\0")
        play.broker_reads(at="b")
        play.broker_is_unblocked(at="a")
        play.broker_gets(b"", at="a")
        play.broker_is_closed(at="a")
        play.broker_tells_client(receipt("r"), at="b")
        assert play.client.closed is None
    with begun(listener(fan_out(2, confirm=True), loss=LossPolicy.REJECT)) as play:
        play.broker_goes(at="a")
        play.broker_goes(at="b")
        play.client_says(send() + b"SEND\ndestination:/queue/a\nfoo:a\\nb\nreceipt:r\n\n\0")
        play.time_passes(SOON)
        play.broker_welcomes(b"1.0", product="artemis", at="a")
        assert play.client_reads() == b""
        play.broker_welcomes(b"1.0", product="artemis", at="b")
        play.client_gets_error(b"the quorum cannot be reached", receipt=b"r")
        assert play.counters["possibly_lost"] == 2  # the SEND before it, by each group
    both = routed(lasting("main", "a"), lasting("there", "b"), loss=LossPolicy.REJECT)
    with begun(both, b"1.2", "a") as play:
        play.client_says(b"SEND\ndestination:/queue/there.1\nfoo:a\\nb\nreceipt:r\n\n\0")
        play.broker_welcomes(b"1.0", at="b")
        play.client_gets_error(b"a header cannot be said in the other version", receipt=b"r")
        play.broker_is_closed(at="a")
        play.broker_is_closed(at="b")
