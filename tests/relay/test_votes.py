"""Ballots, cell by cell."""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.fanout.quorum import Confirmation, Confirmations, Outcome

ANSWERS = ("agree", "excuse", "refuse")


def _expected(answers: list[str], parties: int, quorum: int, required: set[int], order: list[int]) -> Outcome:
    """The rule itself, once more and slowly: what is known after each answer settles it for good."""
    said: dict[int, str] = {}
    for party, answer in [(-1, ""), *zip(order, answers, strict=True)]:
        if party >= 0:
            said[party] = answer
        yes = {each for each, what in said.items() if what == "agree"}
        no = {each for each, what in said.items() if what == "refuse"}
        if len(yes) >= quorum and required <= yes:
            return Outcome.PASSED
        if parties - len(no) < quorum or required & no:
            return Outcome.FAILED
        if len(said) == parties:
            return Outcome.PASSED
    return Outcome.OPEN


CELLS = [
    (parties, quorum, asked, answers)
    for parties in range(1, 4)
    for quorum in range(1, parties + 1)
    for asked in range(parties + 1)
    for answers in product(ANSWERS, repeat=asked)
]


@pytest.mark.parametrize(("parties", "quorum", "asked", "answers"), CELLS)
def test_every_ballot(parties: int, quorum: int, asked: int, answers: tuple[str, ...]) -> None:
    """All answers of up to three parties, in all orders, with and without one that is required."""
    for order in permutations(range(parties), asked):
        for required in (set[int](), {0}):
            confirmation = Confirmation(b"r", range(parties), quorum, required)
            for party, answer in zip(order, answers, strict=True):
                getattr(confirmation, answer)(party)
            assert confirmation.verdict is _expected(list(answers), parties, quorum, required, list(order))
            assert confirmation.awaited == set(range(parties)) - set(order)


def test_a_verdict_is_told_once() -> None:
    """Answers that come after it change nothing."""
    confirmations: Confirmations[str] = Confirmations()
    confirmations.ask(Confirmation(b"r", "abc", 2))
    assert confirmations.agree("a", b"r") is None
    passed = confirmations.agree("b", b"r")
    assert passed is not None
    assert passed.verdict is Outcome.PASSED
    assert confirmations.refuse("c", b"r") is None
    assert passed.verdict is Outcome.PASSED
    assert confirmations.agree("c", b"r") is None


def test_nobody_votes_twice() -> None:
    """A second RECEIPT of one broker is not another broker's."""
    confirmations: Confirmations[str] = Confirmations()
    confirmations.ask(Confirmation(b"r", "ab", 2))
    assert confirmations.agree("a", b"r") is None
    assert confirmations.agree("a", b"r") is None
    assert confirmations.agree("b", b"r") is not None


def test_an_unknown_receipt_is_nobodys() -> None:
    """Neither is that of one who was not asked."""
    confirmations: Confirmations[str] = Confirmations()
    confirmations.ask(Confirmation(b"r", "a", 1))
    assert confirmations.agree("a", b"other") is None
    assert confirmations.agree("b", b"r") is None
    assert confirmations.awaited("a", b"r") is not None


def test_an_id_that_is_used_again() -> None:
    """Each party answers in the order in which it was asked, however far the others are."""
    confirmations: Confirmations[str] = Confirmations()
    first, second = Confirmation(b"r", "ab", 2), Confirmation(b"r", "ab", 2)
    confirmations.ask(first)
    confirmations.ask(second)
    assert confirmations.agree("a", b"r") is None
    assert confirmations.agree("a", b"r") is None
    assert confirmations.agree("b", b"r") is first
    assert confirmations.agree("b", b"r") is second


def test_who_leaves_refuses_all() -> None:
    """What was decided is not decided again, and what was answered before stays."""
    confirmations: Confirmations[str] = Confirmations()
    done, needed, spare = (
        Confirmation(b"1", "ab", 2),
        Confirmation(b"2", "ab", 2),
        Confirmation(b"3", "ab", 1),
    )
    for confirmation in (done, needed, spare):
        confirmations.ask(confirmation)
    confirmations.agree("a", b"1")
    confirmations.agree("b", b"1")
    assert confirmations.leave("a") == [needed]
    assert needed.verdict is Outcome.FAILED
    assert needed.refused == ["a"]
    assert spare.verdict is Outcome.OPEN
    assert confirmations.agree("b", b"3") is spare


def test_groups_that_were_not_asked_have_refused() -> None:
    """So the client is told of all that failed."""
    confirmation = Confirmation(b"r", "b", 1, refused="a")
    confirmation.refuse("b")
    assert confirmation.verdict is Outcome.FAILED
    assert confirmation.refused == ["a", "b"]


def test_pending_counts_what_weighs() -> None:
    """Only open confirmations, and only those about what must not be lost."""
    confirmations: Confirmations[str] = Confirmations()
    confirmations.ask(Confirmation(b"1", "ab", 1, weighs=True))
    confirmations.ask(Confirmation(b"2", "ab", 1))
    assert confirmations.pending == 1
    confirmations.agree("a", b"2")
    assert confirmations.pending == 1
    confirmations.agree("a", b"1")
    assert confirmations.pending == 0
    confirmations.agree("b", b"1")
    assert confirmations.pending == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"]), st.sampled_from(ANSWERS)), max_size=60
    ),
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_ballots_of_few_ids(answers: list[tuple[int, str, str]], asked: list[tuple[str, int]]) -> None:
    """In any order of answers each confirmation is decided at most once, and never passes without its quorum."""
    confirmations: Confirmations[int] = Confirmations()
    every = [Confirmation(id.encode(), range(3), quorum, weighs=True) for id, quorum in asked]
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
    assert confirmations.pending == sum(each.verdict is Outcome.OPEN for each in every)
    for id in ("x", "y"):
        for place, confirmation in enumerate([each for each in every if each.receipt == id.encode()]):
            said = [given_answers.get((party, id), []) for party in range(3)]
            mine = [each[place] for each in said if len(each) > place]
            if confirmation.verdict is Outcome.PASSED:
                assert mine.count("refuse") <= 3 - confirmation.quorum
                assert mine.count("agree") >= confirmation.quorum or len(mine) == 3
            if confirmation.verdict is Outcome.FAILED:
                assert 3 - mine.count("refuse") < confirmation.quorum


def id_of(confirmation: Confirmation[int]) -> int:
    """Ballots are told apart by what they are, not by what they say."""
    return id(confirmation)
